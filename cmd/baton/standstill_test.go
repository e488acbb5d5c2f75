package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestHostThatStandsStill: a host that is stopped answers nobody, and everybody who calls it, or followed a session when it
// was stopped, is told so with its pid: a tool of MCP within its own time, in which it else says that it was not done. What
// was sent meanwhile is done once, when the host goes on.
func TestHostThatStandsStill(t *testing.T) {
	t.Parallel()
	w := recordedWorld(t)
	f := w.open()
	defer f.close()
	id := w.start()
	w.says("send", "--wait", id, "[say 2]")
	pid := w.hostPID()

	follows := exec.Command(self(t), "logs", "-f", id)
	follows.Env = w.env
	var said bytes.Buffer
	follows.Stderr = &said
	out, err := follows.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follows.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "-- completed") {
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	defer goOn()

	told := func(what, text string) {
		for _, want := range []string{"timeout", "the host does not answer", fmt.Sprint("process ", pid), fmt.Sprint("kill -CONT ", pid)} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q: %s", what, want, text)
			}
		}
	}
	var all sync.WaitGroup
	for tool, a := range map[string]args{
		"session_list":   {},
		"session_wait":   {"session_ids": []string{id}, "until": "event"},
		"session_send":   {"session_id": id, "text": "#tool [say 3]", "command_id": "by-tool", "when_busy": "queue"},
		"session_create": {"runner": "codexlike", "cwd": w.work},
	} {
		all.Go(func() {
			if _, e := try[any](f, tool, a); e == nil {
				t.Errorf("%s was answered", tool)
			} else {
				told(tool, e.Error())
			}
		})
	}
	for _, argv := range [][]string{
		{"list"},
		{"host", "status"},
		{"attach", id},
		{"send", "--wait", "--when-busy", "queue", "--key", "by-hand", id, "#hand [say 4]"},
	} {
		all.Go(func() {
			out, errs, status := w.verb(argv...)
			if status != 6 || out != "" {
				t.Errorf("%v: status %d, %q", argv, status, out)
			}
			told(strings.Join(argv, " "), errs)
		})
	}
	all.Wait()
	for lines.Scan() {
		t.Errorf("logs -f: %s", lines.Text())
	}
	if follows.Wait(); follows.ProcessState.ExitCode() != 6 {
		t.Errorf("logs -f: %s", follows.ProcessState)
	}
	told("logs -f", said.String())

	goOn()
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": id, "text": "#tool [say 3]", "command_id": "by-tool", "when_busy": "queue", "wait_seconds": 40})
	if sent.Command.State != sessions.CommandCompleted {
		t.Errorf("%+v", sent.Command)
	}
	w.says("send", "--wait", "--when-busy", "queue", "--key", "by-hand", id, "#hand [say 4]")
	for _, text := range []string{"#tool", "#hand"} {
		if n := w.times(text); n != 1 {
			t.Errorf("%s was given %d times", text, n)
		}
	}
}
