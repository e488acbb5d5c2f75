package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

func (s *session) resume(change ...func(*sessions.ResumeArgs)) (sessions.ResumeResult, error) {
	a := sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0)}
	for _, c := range change {
		c(&a)
	}
	return s.r.Resume(s.r.t.Context(), s.r.who, a)
}

// launched is what the generation is to be started with.
func (r *rig) launched(generation string) bridge.Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.launches[generation].spec
}

// A resume asks again for what was asked last; what is named now takes its place, and what was not kept must be given.
func TestResumeSelectsWhatWasAskedLast(t *testing.T) {
	r := newRig(t)
	extra := t.TempDir()
	s := r.idle(func(a *sessions.CreateArgs) {
		a.Model, a.Effort, a.AutoAnswer, a.WritableRoots, a.EnvUnset = "m", "high", autoApproveAll, []string{extra}, []string{"PAGER"}
		a.RunnerOptions, a.Env = map[string]any{"x": "y"}, map[string]string{"TOKEN": "one"}
		a.MCPServers = []sessions.MCPServer{{Name: "files", Command: "/bin/cat", Env: map[string]string{"T": "1"}}}
	})
	// a turn's override is what was asked last
	s.says(sessions.Event{Kind: sessions.EventSelectionConfirm, Selection: &sessions.Selections{Asked: sessions.Selection{Model: "m2", Effort: "high",
		Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest}, Evidence: sessions.Evidence{Model: "m2"}}})
	s.ends(sandbox.Confirmed)
	_, err := s.resume()
	refused(t, err, sessions.CodeInvalidParams, "TOKEN")
	env := func(a *sessions.ResumeArgs) { a.Env = map[string]string{"TOKEN": "two"} }
	_, err = s.resume(env)
	refused(t, err, sessions.CodeInvalidParams, "MCP server files")
	servers := func(a *sessions.ResumeArgs) {
		a.MCPServers = []sessions.MCPServer{{Name: "files", Command: "/bin/cat", Env: map[string]string{"T": "2"}}}
	}
	res, err := s.resume(env, servers, func(a *sessions.ResumeArgs) { a.Effort, a.AutoAnswer = "low", autoNone })
	if err != nil {
		t.Fatal(err)
	}
	got := r.launched(res.Session.Generation)
	want := sessions.Selection{Model: "m2", Effort: "low", Sandbox: sessions.SandboxWorkspaceWrite, ApprovalPolicy: sessions.ApprovalOnRequest}
	if got.Open.Selection != want || !slices.Equal(got.Open.WritableRoots, []string{extra}) || got.Open.Options["x"] != "y" || got.Open.NativeID != "native" {
		t.Errorf("asked for %+v", got.Open)
	}
	if !slices.Contains(got.Env, "TOKEN=two") || got.Open.MCPServers[0].Env["T"] != "2" {
		t.Error("the values given now are not those that are used")
	}
	r.tx(func(tx *journal.Tx) error {
		now, err := tx.GetSession("", s.id)
		if now.Settings.AutoAnswer != "" || now.Asked != want || !slices.Equal(now.Settings.EnvNames, []string{"TOKEN"}) {
			t.Errorf("kept: %+v, %+v", now.Asked, now.Settings)
		}
		return err
	})
}

// What a session has used goes with it from one generation to the next, whatever ended them.
func TestResumeKnowsWhatWasSpent(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	var told sessions.Spent
	for range 3 {
		told.Tokens, told.AgentTokens, told.TurnMillis = told.Tokens+100, told.AgentTokens+10, told.TurnMillis+1000
		spent := told
		s.says(sessions.Event{Kind: sessions.EventUsage, Spent: &spent})
		s.says(sessions.Event{Kind: sessions.EventUsage, Usage: &sessions.Usage{Total: 1}}) // says nothing of it
		if v := s.view(); v.Spent == nil || *v.Spent != told {
			t.Fatalf("the session shows %+v, want %+v", v.Spent, told)
		}
		s.ends(sandbox.Confirmed)
		res, err := s.resume()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.launched(res.Session.Generation).Open.Spent; got != told {
			t.Errorf("the next generation is given %+v, want %+v", got, told)
		}
		s = r.bridgeOf(res.Session)
		s.opens()
	}
}

func TestResumeIsRefused(t *testing.T) {
	resumable := func(r *rig) *session { return failedSession(r) }
	for name, c := range map[string]struct {
		from   func(*rig) *session
		change func(*rig, *sessions.ResumeArgs)
		code   sessions.Code
		says   string
	}{
		"another HOME":       {resumable, func(r *rig, _ *sessions.ResumeArgs) { r.who.Env = []string{"HOME=/elsewhere"} }, sessions.CodeInvalidParams, "account context"},
		"another CODEX_HOME": {resumable, func(r *rig, _ *sessions.ResumeArgs) { r.who.Env = append(r.who.Env, "CODEX_HOME=/x") }, sessions.CodeInvalidParams, "account context"},
		"lives":              {func(r *rig) *session { return r.idle() }, nil, sessions.CodeNotRunning, "nothing to resume"},
		"runs":               {func(r *rig) *session { return r.runs() }, nil, sessions.CodeNotRunning, "nothing to resume"},
		"is starting":        {func(r *rig) *session { return r.starting() }, nil, sessions.CodeNotRunning, "starting"},
		"no such runner":     {resumable, func(r *rig, _ *sessions.ResumeArgs) { r.configure("") }, sessions.CodeRunnerMissing, "fake"},
		"a broken config":    {resumable, func(r *rig, _ *sessions.ResumeArgs) { r.configure("[[[") }, sessions.CodeInvalidParams, "config.toml"},
		"a wrong setting":    {resumable, func(_ *rig, a *sessions.ResumeArgs) { a.Sandbox = "none" }, sessions.CodeInvalidParams, "sandbox"},
		"a profile":          {resumable, func(_ *rig, a *sessions.ResumeArgs) { a.Profile = "work" }, sessions.CodeUnsupported, "profile"},
		"too many live":      {resumable, func(r *rig, _ *sessions.ResumeArgs) { r.o.MaxSessions = 1 }, sessions.CodeLimitExceeded, "limit is 1"},
		"cannot resume": {func(r *rig) *session {
			s := r.runs()
			s.r.tx(func(tx *journal.Tx) error {
				_, err := tx.UpdateSession(s.id, func(s *journal.Session) { s.Capability.Resume = false })
				return err
			})
			s.settles("c", sessions.CommandCompleted)
			s.ends(sandbox.Confirmed)
			return s
		}, nil, sessions.CodeUnsupported, "cannot take up"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := c.from(r)
			before := s.view()
			_, err := s.resume(func(a *sessions.ResumeArgs) {
				if c.change != nil {
					c.change(r, a)
				}
			})
			refused(t, err, c.code, c.says)
			if v := s.view(); v.State != before.State || v.Generation != before.Generation {
				t.Errorf("the session is %s in %s, was %s in %s", v.State, v.Generation, before.State, before.Generation)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if _, kept := r.launches[s.generation]; len(r.launches) > 1 || len(r.launches) == 1 && !kept {
				t.Errorf("%d launches are kept", len(r.launches))
			}
		})
	}
}

// A resume of a failed session waits until its old processes are gone.
func TestResumeWaitsForTheEnd(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}})
	var res sessions.ResumeResult
	if err := within(t, func() (err error) { res, err = s.resume(); return err }, func() {
		r.waiting(s.id)
		s.wants(sessions.SessionFailed)
		s.ends(sandbox.Confirmed)
	}); err != nil {
		t.Fatal(err)
	}
	if res.Session.State != sessions.SessionStarting || res.Session.Generation == s.generation || len(res.Settled) != 0 {
		t.Errorf("%+v", res)
	}
}

// A resume whose agent does not come up is the failure of that generation, told to its caller and its repetitions.
func TestResumeFails(t *testing.T) {
	r := newRig(t)
	s := failedSession(r)
	key := func(a *sessions.ResumeArgs) { a.Key, a.WaitSeconds = "k", ptr(20) }
	err := within(t, func() error { _, err := s.resume(key); return err }, func() {
		r.waiting(s.id)
		for s.view().State != sessions.SessionStarting {
		}
		next := r.bridgeOf(s.view())
		next.frame(bridge.OutFailed, bridge.Failure{Error: sessions.Errorf(sessions.CodeSelectionUnconfirmed, "model m was asked")})
		next.ends(sandbox.Confirmed)
	})
	refused(t, err, sessions.CodeSelectionUnconfirmed, "model m")
	_, err = s.resume(key)
	refused(t, err, sessions.CodeSelectionUnconfirmed, "model m")
	r.tx(func(tx *journal.Tx) error {
		list, err := tx.ListGenerations(s.id)
		if len(list) != 2 {
			t.Errorf("%d generations", len(list))
		}
		return err
	})
}

// An agent that kept nothing of a conversation that never ran a turn begins a new one, and that is told.
func TestRecreatedConversation(t *testing.T) {
	r := newRig(t)
	s := failedSession(r)
	res, err := s.resume()
	if err != nil {
		t.Fatal(err)
	}
	next := r.bridgeOf(res.Session)
	next.frame(bridge.OutOpened, sessions.Opened{NativeID: "another", Recreated: true})
	if v := next.view(); v.NativeID != "another" || v.State != sessions.SessionIdle {
		t.Errorf("%+v", v)
	}
	if w := next.events(sessions.EventWarning); len(w) != 1 || !strings.Contains(w[0].Text, "a new one") {
		t.Errorf("%+v", w)
	}
}

// RE-01: a conversation that ran a turn is missing when it is not found, and not begun anew, also where the word that the
// turn was taken died with the bridge, and only its end tells of it.
func TestConversationThatRanATurn(t *testing.T) {
	for name, c := range map[string]struct {
		end sessions.Settlement
		ran bool
	}{
		"by the record":        {sessions.Settlement{State: sessions.CommandCompleted, By: "agent record"}, true},
		"failed by the record": {sessions.Settlement{State: sessions.CommandFailed, Outcome: "usage_limit", By: "agent record"}, true},
		"cut off":              {sessions.Settlement{State: sessions.CommandInterrupted, By: "agent record"}, true},
		"not in the record":    {sessions.Settlement{State: sessions.CommandFailed, Outcome: outcomeNotDelivered, By: "agent record"}, false},
		"nobody knows":         {sessions.Settlement{State: sessions.CommandUnknown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.idle()
			s.send("c")
			s.reports(bridge.InPrompt, "c", bridge.InputWritten, nil)
			s.ends(sandbox.Confirmed)
			res, err := s.resume()
			if err != nil {
				t.Fatal(err)
			}
			next := r.bridgeOf(res.Session)
			c.end.Command = "c"
			next.opens(c.end)
			next.ends(sandbox.Confirmed)
			if res, err = next.resume(); err != nil {
				t.Fatal(err)
			}
			if open := r.launched(res.Session.Generation).Open; open.HadTurn != c.ran {
				t.Errorf("resumed as one that ran a turn: %t", open.HadTurn)
			}
		})
	}
	for _, state := range []sessions.CommandState{sessions.CommandFailed, sessions.CommandInterrupted, sessions.CommandCancelUnconfirmed} {
		t.Run("before it was accepted "+string(state), func(t *testing.T) {
			r := newRig(t)
			s := r.idle()
			s.send("c")
			s.settles("c", state)
			s.ends(sandbox.Confirmed)
			res, err := s.resume()
			if err != nil {
				t.Fatal(err)
			}
			if r.launched(res.Session.Generation).Open.HadTurn {
				t.Error("resumed as one that ran a turn")
			}
		})
	}
}

// AC-01: the account of a session is that of its own environment where it has one, by the real path of its folder; a resume
// with another is refused, and what the caller inherited does not count.
func TestAC01_ASessionKeepsItsAccount(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	b, c, link := filepath.Join(dir, "b"), filepath.Join(dir, "c"), filepath.Join(dir, "link")
	for _, d := range []string{b, c} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	point := func(to string) {
		t.Helper()
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	point(b)
	outer := r.who.Env
	r.who.Env = append(slices.Clone(outer), "CODEX_HOME="+filepath.Join(dir, "outer"))
	home := func(path string) map[string]string { return map[string]string{"CODEX_HOME": path} }
	s := r.idle(func(a *sessions.CreateArgs) { a.Env = home(link) })
	s.ends(sandbox.Confirmed)
	for _, step := range []struct {
		env  map[string]string
		then func()
		code sessions.Code // "": it goes
	}{
		{env: nil, code: sessions.CodeInvalidParams},
		{env: home(c), code: sessions.CodeInvalidParams},
		{env: home(filepath.Join(dir, "missing")), code: sessions.CodeInvalidParams},
		{env: home(link), then: func() { point(c) }, code: sessions.CodeInvalidParams},
		{env: home(link), then: func() { point(b); r.who.Env = outer }},
	} {
		if step.then != nil {
			step.then()
		}
		res, err := s.resume(func(a *sessions.ResumeArgs) { a.Env = step.env })
		if sessions.CodeOf(err) != step.code {
			t.Errorf("resume with %v: %v, want %q", step.env, err, step.code)
		}
		if err == nil && !slices.Contains(r.launched(res.Session.Generation).Env, "CODEX_HOME="+link) {
			t.Error("the agent does not get the session's own home")
		}
	}
}
