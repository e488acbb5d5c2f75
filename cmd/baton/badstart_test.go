package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// badRunners are agents that cannot be started, or not to the end, within the handshake timeout where one is given.
const badRunners = `
[host]
idle_exit = "20s"
handshake_timeout = "2s"
allow_unconfined_full_access = true

[runners.codexlike]
protocol = "app-server"
command = ["baton:agent", "app-server"]

[runners.quits]
protocol = "app-server"
command = ["baton:agent", "app-server", "--exit-at-once", "3"]

[runners.quits-acp]
protocol = "acp"
command = ["baton:agent", "acp", "--exit-at-once", "3"]

[runners.mute]
protocol = "app-server"
command = ["baton:agent", "app-server", "--mute"]

[runners.mute-acp]
protocol = "acp"
command = ["baton:agent", "acp", "--mute"]

[runners.refuses]
protocol = "app-server"
command = ["baton:agent", "app-server", "--init-error"]

[runners.refuses-acp]
protocol = "acp"
command = ["baton:agent", "acp", "--init-error"]
`

func TestBadStarts(t *testing.T) {
	w := newWorld(t)
	patient := strings.Replace(badRunners, "handshake_timeout", "# handshake_timeout", 1)
	w.write("baton/config.toml", patient)
	w.write("work/file", "")
	f := w.open()
	defer f.close()
	const full = sessions.SandboxFullAccess
	unstored := []struct {
		name string
		code sessions.Code
		args args
	}{
		{"no cwd", sessions.CodeInvalidParams, args{"runner": "codexlike"}},
		{"relative cwd", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": "work"}},
		{"cwd that is not there", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.work + "/none"}},
		{"cwd that is a file", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.work + "/file"}},
		{"cwd in our own folder", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.path("baton/state")}},
		{"unknown runner", sessions.CodeRunnerMissing, args{"runner": "nobody", "cwd": w.work}},
		{"runner that is not installed", sessions.CodeRunnerMissing, args{"runner": "cursor", "cwd": w.work, "sandbox": full}},
		{"unknown sandbox", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.work, "sandbox": "none"}},
		{"unknown argument", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.work, "colour": "red"}},
		{"prompt over the limit", sessions.CodeLimitExceeded, args{"runner": "codexlike", "cwd": w.work, "prompt": strings.Repeat("x", sessions.MaxPromptBytes+1)}},
		{"session id that is no UUID", sessions.CodeInvalidParams, args{"runner": "codexlike", "cwd": w.work, "session_id": "../x"}},
	}
	for _, c := range unstored {
		t.Run(c.name, func(t *testing.T) {
			e := refused(f, c.code, "session_create", c.args)
			if e.Action == "" {
				t.Errorf("%v does not say what to do", e)
			}
		})
	}
	if list := call[sessions.ListResult](f, "session_list", args{"all": true}).Sessions; len(list) != 0 {
		t.Fatalf("refused before launch, and stored: %+v", list)
	}
	failed := []struct {
		runner string
		code   sessions.Code
		says   string
	}{
		{"quits", sessions.CodeAgentExited, "exit status 3"},
		{"quits-acp", sessions.CodeAgentExited, "exit status 3"},
		{"mute", sessions.CodeTimeout, "2s"},
		{"mute-acp", sessions.CodeTimeout, "2s"},
		{"refuses", sessions.CodeAgentProtocol, ""},
		{"refuses-acp", sessions.CodeAgentProtocol, ""},
	}
	for _, c := range failed {
		t.Run(c.runner, func(t *testing.T) {
			if c.code == sessions.CodeTimeout {
				w.write("baton/config.toml", badRunners)
				defer w.write("baton/config.toml", patient)
			}
			id := sessions.NewID()
			a := args{"runner": c.runner, "cwd": w.work, "sandbox": full, "session_id": id, "wait_seconds": 40}
			began := time.Now()
			e := refused(f, c.code, "session_create", a)
			if !strings.Contains(e.Message, c.says) || e.Action == "" {
				t.Errorf("%v does not say %q, or not what to do", e, c.says)
			}
			t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), e)
			if left := w.find("agent"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if again := refused(f, c.code, "session_create", a); again.Message != e.Message {
				t.Errorf("the same id answers %v", again)
			}
			list := call[sessions.ListResult](f, "session_list", args{"state": "failed", "runner": c.runner}).Sessions
			if len(list) != 1 || list[0].SessionID != id || list[0].Error == nil || list[0].Error.Code != c.code || list[0].Recovery == "" {
				t.Errorf("the failed session does not say why: %+v", list)
			}
		})
	}
	t.Run("unknown session", func(t *testing.T) {
		id := sessions.NewID()
		refused(f, sessions.CodeNotFound, "session_send", args{"session_id": id, "text": "x"})
		refused(f, sessions.CodeNotFound, "session_read", args{"session_id": id})
		refused(f, sessions.CodeNotFound, "session_wait", args{"session_ids": []string{id}})
		refused(f, sessions.CodeNotFound, "session_close", args{"session_id": id})
		refused(f, sessions.CodeNotFound, "session_resume", args{"session_id": id})
		refused(f, sessions.CodeNotFound, "session_respond", args{"session_id": id, "request_id": sessions.NewID(), "decision": "deny"})
	})
	await(t, "a tidy runtime folder", func() bool {
		entries, err := os.ReadDir(w.path("baton/run"))
		return err == nil && len(entries) == 1 && entries[0].Name() == "host.sock"
	})
}

// TestProcessesMatchThePicture checks the processes that the README draws: front end, host, bridge, agent.
func TestProcessesMatchThePicture(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	if s.State != sessions.SessionIdle {
		t.Fatalf("%+v", s)
	}
	agents := w.find("agent app-server")
	if len(agents) != 1 {
		t.Fatalf("agents: %v of %v", agents, w.processes())
	}
	hosts := w.find("host run")
	if len(hosts) != 1 || hosts[0].PID != w.hostPID() {
		t.Fatalf("hosts: %v", hosts)
	}
	var bridge process
	for _, p := range allProcesses(t) {
		if p.PID == agents[0].PPID {
			bridge = p
		}
	}
	if !strings.HasSuffix(bridge.Args, "bridge") || bridge.PPID != hosts[0].PID {
		t.Errorf("the agent's parent is %+v, the host is %d", bridge, hosts[0].PID)
	}
	if fronts := w.find(" mcp"); len(fronts) != 1 {
		t.Errorf("front ends: %v", fronts)
	}
}
