package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// A real Codex is started detached from a shell at a terminal. The terminal and everything that runs at it are killed, and
// so is the host: the agent works on, another terminal takes it up and steers it, and what was said is there as a whole.
func TestCodexOutlivesItsTerminal(t *testing.T) {
	x := newCodexRun(t, codexBinary(t))
	defer x.f.close()
	shell := x.console("/bin/sh")
	shell.types(self(t) + " run --detach --key outlives -r codex '[say 1500 8 5]'; echo said:$?\n")
	shell.sees("said:0")
	id := sessions.DerivedID("session", sessions.DefaultPrincipal, "outlives")
	command := sessions.DerivedID("command", sessions.DefaultPrincipal, id)
	x.f.streaming(id, command)

	if err := syscall.Kill(-shell.cmd.Process.Pid, syscall.SIGKILL); err != nil { // it leads the session of its terminal
		t.Fatal(err)
	}
	_ = shell.cmd.Wait()
	if err := shell.tty.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(x.hostPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	c := x.terminal("attach", id)
	c.sees("Ctrl-D detaches")
	c.types(":steer [text steered]\n")
	c.sees("\nsteered") // as the agent says it
	c.sees("-- completed")
	c.types(ctrlD)
	c.ends(0)
	if n := x.prompts("say 1500"); n != 1 {
		t.Errorf("the prompt was sent %d times", n)
	}
	said := words(x.f.events(id), command)
	logs := x.says("logs", id)
	for _, line := range strings.Split(strings.TrimSpace(said), "\n") {
		if !strings.Contains(logs, line) {
			t.Errorf("the log lacks %.200q", line)
		}
	}
	if !strings.Contains(logs, "\nsteered\n") || x.prompts("text steered") == 0 {
		t.Errorf("the steer had no effect: %s", logs)
	}
	x.sound(id)
}
