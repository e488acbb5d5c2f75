package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// copyOf puts a copy of the running binary where an agent can reach it.
func (w *world) copyOf(dir string) string {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	to := filepath.Join(dir, "baton")
	if os.Link(self, to) == nil {
		return to
	}
	from, err := os.Open(self)
	if err != nil {
		w.t.Fatal(err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.Copy(f, from); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	return to
}

// TestAgentCannotAnswerItself: with a request of its own open, an agent tries every way there is to Baton, with a copy of
// baton and all that it could know. Where there is no mount namespace, all of it works: such a session is no wall.
func TestAgentCannotAnswerItself(t *testing.T) {
	for _, sandbox := range []string{sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess} {
		t.Run(sandbox, func(t *testing.T) {
			t.Setenv("TMPDIR", "/var/tmp") // in a private /tmp there would be nothing to reach
			w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
			f := w.open()
			defer f.close()
			s := call[sessions.CreateResult](f, "session_create", args{"runner": "cursor", "cwd": w.work, "sandbox": sandbox, "wait_seconds": 50}).Session
			needPolicy(t, s)
			w.copyOf(w.work)
			// The tries wait in the background for the request that the same agent raises next.
			waiting := "setsid sh -c 'until [ -s go ]; do sleep 0.05; done; sh ./go > tried 2>&1; mv tried done' >/dev/null 2>&1 </dev/null &"
			if sent := f.send(s.SessionID, "[run "+waiting+"]"); sent.Command.State != sessions.CommandCompleted {
				t.Fatalf("%+v", sent.Command)
			}
			call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve echo x > approved]"})
			asked := f.settle(s.SessionID)
			if len(asked.Requests) != 1 {
				t.Fatalf("no request: %+v", asked)
			}
			request := asked.Requests[0].RequestID
			home := w.path("baton")
			outside := "env -u BATON_MARK BATON_HOME=" + home + " ./baton "
			tries := []string{
				outside + "respond " + s.SessionID + " " + request + " --approve",
				outside + "host status",
				outside + "read " + s.SessionID,
				"./baton respond " + s.SessionID + " " + request + " --approve",
				"cat " + home + "/state/token",
				"cat " + home + "/state/journal.db",
				"ls " + home + "/run",
				"ls " + home + "/state",
				"touch " + home + "/state/new",
				"head -c 1 /proc/1/mem", "cat /proc/1/environ", "readlink /proc/1/fd/3", "cat /proc/1/fd/3", "ls /proc/1/root/", "ls /proc/1/cwd/",
				"unshare -Urm umount " + home + "/state", "unshare -Urm sh -c 'umount -l " + home + "/state; cat " + home + "/state/token'",
				"unshare -Urm sh -c 'mount --bind " + w.dir + " /mnt && cat /mnt/baton/state/token'",
				"grep @.*baton /proc/net/unix",
				`printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}' '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' | ./baton mcp | grep session_`,
			}
			var script strings.Builder
			script.WriteString("export PATH=/usr/sbin:/usr/bin:/sbin:/bin\nkill -9 1; kill -TERM 1\n")
			for _, try := range tries {
				script.WriteString("(" + try + ") >/dev/null 2>&1 && cat <<'END'\nworked: " + try + "\nEND\n")
			}
			script.WriteString("echo tried all\n")
			if err := os.WriteFile(filepath.Join(w.work, "go.new"), []byte(script.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(w.work, "go.new"), filepath.Join(w.work, "go")); err != nil {
				t.Fatal(err)
			}
			done := filepath.Join(w.work, "done")
			await(t, "the tries", func() bool { return exists(done) })
			said, err := os.ReadFile(done)
			if err != nil || strings.Contains(string(said), "worked:") || !strings.Contains(string(said), "tried all") {
				t.Errorf("%v\n%s", err, said)
			}
			if exists(filepath.Join(w.work, "approved")) {
				t.Error("the command ran")
			}
			now := call[sessions.ListResult](f, "session_list", args{}).Sessions
			if len(now) != 1 || len(now[0].Requests) != 1 || now[0].Requests[0].State != sessions.RequestPending {
				t.Fatalf("the request is not open any more: %+v", now)
			}
			call[sessions.RespondResult](f, "session_respond", args{"session_id": s.SessionID, "request_id": request, "decision": "approve"})
			f.settle(s.SessionID)
			if !exists(filepath.Join(w.work, "approved")) {
				t.Error("an answer from outside does not reach it")
			}
		})
	}
}
