package appserver

import (
	"slices"
	"strings"
)

// maxRunning bounds the commands that are known to run: of one that Codex never tells the end of nobody else does either.
const maxRunning = 512

// commandRuns notes a command that Codex has begun, as its item has it: "/bin/bash -lc 'sleep 5'".
func (a *Agent) commandRuns(k itemKey, command string) {
	script, ok := scriptOf(command)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.running) < maxRunning {
		a.running[k] = script
	}
}

func (a *Agent) commandEnded(k itemKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, k)
}

// Command tells whether a process below Codex is a command that it runs. It names no process of one, not even in
// thread/backgroundTerminals/list (osPid is null in 0.154 and 0.171), but it starts every one as a child of its own, in
// all versions from 0.125 to 0.171: the shell with -c and the script; in a sandbox codex-linux-sandbox in front of that,
// and often a script of Codex's own around it, which ends with the exec of a shell with the script.
func (a *Agent) Command(argv []string) bool {
	if len(argv) < 3 || !slices.Contains(shellFlags, argv[len(argv)-2]) {
		return false
	}
	text := unquoted(argv[len(argv)-1])
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, script := range a.running {
		if text == script {
			return true
		}
		for _, flag := range shellFlags {
			if strings.HasSuffix(text, " "+flag+" "+script) {
				return true
			}
		}
	}
	return false
}

// shellFlags make a shell run a script that is an argument. An item says -lc where the process has -c.
var shellFlags = []string{"-c", "-lc"}

// scriptOf is the script of a command of a shell, as unquoted gives it.
func scriptOf(command string) (string, bool) {
	for _, flag := range shellFlags {
		if shell, script, ok := strings.Cut(command, " "+flag+" "); ok && !strings.ContainsAny(shell, " \n") {
			return unquoted(script), true
		}
	}
	return "", false
}

// unquoted drops what quotes: items and processes quote the same script differently.
func unquoted(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`'"\`, r) {
			return -1
		}
		return r
	}, s)
}
