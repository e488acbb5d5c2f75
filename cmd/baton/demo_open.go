package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// demoTools are the tools that the demo relies on, all ten of them.
var demoTools = []string{"runner_list", "session_cancel", "session_close", "session_create", "session_list",
	"session_read", "session_respond", "session_resume", "session_send", "session_wait"}

// start starts the front end, as an MCP host would.
func (d *demo) start(ctx context.Context) (err error) {
	if d.mcp, err = openDemoClient(ctx, d.home); err != nil {
		return err
	}
	if _, err := d.seen.look(d.mcp.pid()); err != nil {
		return err
	}
	tools, err := d.mcp.mcp.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tools.Tools {
		names = append(names, t.Name)
	}
	for _, name := range demoTools {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no tool %s among %q", name, names)
		}
	}
	d.say(nil, "baton mcp (pid %d) speaks MCP %s and offers %d tools", d.mcp.pid(), d.mcp.speaks, len(names))
	return nil
}

// runners asks for the runners; the first call starts the host.
func (d *demo) runners(ctx context.Context) error {
	list, err := demoCall[sessions.RunnerListResult](ctx, d.mcp, "runner_list", sessions.RunnerListArgs{})
	if err != nil {
		return err
	}
	for _, name := range []string{demoCodex, demoCursor} {
		i := slices.IndexFunc(list.Runners, func(r sessions.Runner) bool { return r.Name == name })
		switch {
		case i < 0:
			return fmt.Errorf("runner_list does not show %s", name)
		case !list.Runners[i].Installed || list.Runners[i].Problem != "" || len(list.Runners[i].Models) == 0:
			return fmt.Errorf("runner %s cannot be used: %s", name, list.Runners[i].Problem)
		}
		var models []string
		for _, m := range list.Runners[i].Models {
			models = append(models, m.ID)
		}
		d.say(&demoSession{runner: name}, "speaks %s, offers the models %s", list.Runners[i].Protocol, strings.Join(models, ", "))
	}
	for _, real := range []struct{ runner, program string }{{"codex", "codex"}, {"cursor", "cursor-agent"}} {
		path := os.Getenv("BATON_RUNNER_" + strings.ToUpper(real.runner))
		if path == "" {
			if path, err = exec.LookPath(real.program); err != nil && !errors.Is(err, exec.ErrDot) {
				continue
			}
		}
		d.say(nil, "%s is installed (%s): not used here; session_create with runner %q uses it", real.program, path, real.runner)
	}
	return nil
}

// create creates both sessions, each with a model that is not its agent's default, and checks what the agent confirmed.
func (d *demo) create(ctx context.Context) error {
	d.codex = &demoSession{runner: demoCodex, asked: sessions.Settings{Model: "mock-mini", Sandbox: sessions.SandboxWorkspaceWrite}}
	d.cursor = &demoSession{runner: demoCursor, asked: sessions.Settings{Model: "gpt-5.5", Effort: "high", Sandbox: sessions.SandboxFullAccess}}
	return d.both(func(s *demoSession) error {
		s.work = d.home.workspace(s.runner)
		made, err := demoCall[sessions.CreateResult](ctx, d.mcp, "session_create", sessions.CreateArgs{Runner: s.runner, Cwd: s.work, Title: "demo", Settings: s.asked})
		if err != nil {
			return err
		}
		s.Session = made.Session
		d.rung = s.Containment.Rung
		e := s.Selections.Evidence
		switch {
		case s.State != sessions.SessionIdle || s.Generation == "" || s.NativeID == "":
			return fmt.Errorf("the session is %s, generation %q, native id %q", s.State, s.Generation, s.NativeID)
		case e.Model != s.asked.Model || e.Effort != s.asked.Effort && s.asked.Effort != "":
			return fmt.Errorf("model %s %s was asked, %s %s confirmed", s.asked.Model, s.asked.Effort, e.Model, e.Effort)
		case e.Sandbox != s.asked.Sandbox:
			return fmt.Errorf("sandbox %s was asked, %s confirmed", s.asked.Sandbox, e.Sandbox)
		case d.rung == "":
			return errors.New("the session does not say how it is contained")
		}
		d.say(s, "session %s", s.SessionID)
		d.say(s, "model %s asked, the agent confirms %s (%s); sandbox %s; contained by %s", s.asked.Model, e.Model, e.Effort, e.Sandbox, d.rung)
		return nil
	})
}

// processes looks at the processes from outside: front end, host, and a bridge with its agent for each session.
func (d *demo) processes(ctx context.Context) error {
	status, err := d.home.client().Status(ctx)
	if err != nil {
		return err
	}
	d.host = status.PID
	all, err := d.seen.look(d.mcp.pid(), d.host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(demoChildren(all, d.mcp.pid(), "host run"), func(p demoProcess) bool { return p.pid == d.host }) {
		return fmt.Errorf("the host %d is not the child of baton mcp %d", d.host, d.mcp.pid())
	}
	bridges := demoChildren(all, d.host, "bridge")
	if len(bridges) == 0 && demoHidden() {
		d.say(nil, "host %d serves %d sessions; this system hides their processes (hidepid)", d.host, status.Live)
		return nil
	}
	if len(bridges) != 2 || status.Live != 2 {
		return fmt.Errorf("%d bridges, %d live sessions, and two sessions", len(bridges), status.Live)
	}
	d.say(nil, "%d baton mcp", d.mcp.pid())
	d.say(nil, "└─ %d baton host run", d.host)
	for i, b := range bridges {
		agents := demoChildren(all, b.pid, "agent")
		if len(agents) != 1 {
			return fmt.Errorf("bridge %d has %d agents", b.pid, len(agents))
		}
		branch, trunk := "├─", "│ "
		if i == len(bridges)-1 {
			branch, trunk = "└─", "  "
		}
		d.say(nil, "   %s %d %s", branch, b.pid, b.argv)
		d.say(nil, "   %s └─ %d %s", trunk, agents[0].pid, agents[0].argv)
	}
	return nil
}

// refuse asks for a model that does not exist, with a prompt that would leave a file.
func (d *demo) refuse(ctx context.Context) error {
	before, err := d.home.received("prompt", "")
	if err != nil {
		return err
	}
	return d.both(func(s *demoSession) error {
		settings := s.asked
		settings.Model, settings.Effort = "no-such-model", ""
		refusal, err := demoRefused(ctx, d.mcp, sessions.CodeModelUnavailable, "session_create",
			sessions.CreateArgs{Runner: s.runner, Cwd: s.work, Settings: settings, Prompt: "[write refused.txt x]"})
		if err != nil {
			return err
		}
		after, err := d.home.received("prompt", "")
		if err != nil {
			return err
		}
		if after != before || s.has("refused.txt") {
			return errors.New("the prompt reached the agent")
		}
		d.say(s, "model %s: %s; the agent never saw the prompt", settings.Model, refusal.Code)
		return nil
	})
}
