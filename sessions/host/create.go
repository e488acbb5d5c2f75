package host

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sandbox/env"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// Create reserves a session, starts its agent, and waits until everything asked is confirmed or has failed.
func (h *Host) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	if err := named(who); err != nil {
		return sessions.CreateResult{}, err
	}
	if a.SessionID != "" {
		if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
			return sessions.CreateResult{}, err
		}
	}
	for name, v := range map[string]string{"key": a.Key, "command_id": a.CommandID} {
		if v != "" {
			if err := sessions.CheckName(name, v); err != nil {
				return sessions.CreateResult{}, err
			}
		}
	}
	if a.Runner == "" {
		return sessions.CreateResult{}, sessions.Errorf(sessions.CodeInvalidParams, "runner is missing").Do("runner_list shows what is there")
	}
	if a.CommandID != "" && a.Prompt == "" {
		return sessions.CreateResult{}, sessions.Errorf(sessions.CodeInvalidParams, "command_id was given without a prompt").
			Do("give the prompt that it names, or leave command_id out")
	}
	if a.Prompt != "" {
		if err := checkPrompt("prompt", a.Prompt); err != nil {
			return sessions.CreateResult{}, err
		}
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultWaitSeconds)
	if err != nil {
		return sessions.CreateResult{}, err
	}
	defaults(&a.Settings)
	mean := meaning("create", a, "session_id", "command_id")
	return h.make(ctx, who, creation{CreateArgs: a, verb: "create", mean: mean}, wait)
}

// creation is a session to be made: a new one, or one that goes on with a conversation.
type creation struct {
	sessions.CreateArgs
	verb, mean string
	native     string // the conversation that it adopts, "" for a new one
}

// make reserves a session and starts its agent, or joins what an earlier call began, and waits for it to be ready.
func (h *Host) make(ctx context.Context, who sessions.Caller, a creation, wait time.Duration) (sessions.CreateResult, error) {
	id, fresh, err := h.reserve(ctx, who, a)
	if err != nil {
		return sessions.CreateResult{}, err
	}
	if fresh {
		failpoint.Hit("host.create.durable")
		h.tend(id.session, id.generation, nil, journal.Generation{})
	} else if err := h.relaunch(id.session, id.generation, func() (launch, error) {
		s, err := h.sameAccount(ctx, who, id.session, a.Settings)
		if err != nil {
			return launch{}, err
		}
		if who.Folders, err = stillBound(s, who.Folders); err != nil {
			return launch{}, err
		}
		a.WritableRoots = s.Settings.WritableRoots
		w, err := h.workspaceAgain(who, s.Cwd, a.WritableRoots, a.WritableRoots)
		if err != nil {
			return launch{}, err
		}
		l, _, err := h.launchOf(who, id.session, id.generation, w, a)
		return l, err
	}); err != nil {
		return sessions.CreateResult{}, err
	}
	return h.created(ctx, who, id, a.CreateArgs, wait)
}

// launchOf is what a creation is launched with.
func (h *Host) launchOf(who sessions.Caller, session, generation string, w workspace, a creation) (launch, config.Runner, error) {
	l, runner, err := h.plan(who, session, generation, a.Runner, w, a.Settings)
	if open := &l.spec.Open; a.native != "" {
		open.NativeID, open.HadTurn, open.Replay = a.native, true, true
	}
	return l, runner, err
}

// created is what a create or its repetition gave.
type created struct {
	session, generation, command string
}

// reserve finds what the keys made before, or checks everything and makes the session durable, with its generation and
// first command. Nothing is stored when it refuses.
func (h *Host) reserve(ctx context.Context, who sessions.Caller, a creation) (created, bool, error) {
	was, found, err := h.reserved(ctx, who, a)
	if err != nil || found {
		return was, false, err
	}
	if a.SessionID == "" {
		a.SessionID = sessions.NewSessionID()
		if a.Key != "" {
			a.SessionID = sessions.DerivedID("session", who.Principal, a.Key)
		}
	}
	if a.CommandID == "" && a.Prompt != "" {
		a.CommandID = sessions.DerivedID("command", who.Principal, a.SessionID)
	}
	if err := checkSettings(&a.Settings); err != nil {
		return created{}, false, err
	}
	if err := checkLine("title", a.Title); err != nil {
		return created{}, false, err
	}
	w, err := h.workspaceOf(who, a.Cwd, a.WritableRoots)
	if err != nil {
		return created{}, false, err
	}
	a.Cwd, a.WritableRoots = w.cwd, w.roots
	r := reservation{h: h, who: who, a: a, own: created{session: a.SessionID, generation: sessions.NewID(), command: a.CommandID}}
	if r.launch, r.runner, err = h.launchOf(who, r.own.session, r.own.generation, w, a); err != nil {
		return created{}, false, err
	}
	if r.cfg, err = h.config(); err != nil {
		return created{}, false, err
	}
	if err := h.roomForOne(); err != nil {
		return created{}, false, err
	}
	h.mu.Lock()
	h.launches[r.own.generation] = r.launch
	h.mu.Unlock()
	err = h.update(ctx, r.apply)
	fresh := err == nil && r.id.generation == r.own.generation
	if !fresh {
		h.mu.Lock()
		delete(h.launches, r.own.generation)
		h.mu.Unlock()
	}
	return r.id, fresh, err
}

// reservation is one reserve on its way.
type reservation struct {
	h      *Host
	who    sessions.Caller
	a      creation
	cfg    *config.Config
	runner config.Runner
	launch launch
	own    created // what it makes where nothing is there

	id created // what it came to: its own, also where an earlier run of it was recorded, or another's
}

func (r *reservation) apply(tx *journal.Tx, c *changes) error {
	h, who, a, id := r.h, r.who, r.a, r.own
	was, _, found, err := reservedIn(tx, who, a)
	if err != nil {
		return err
	}
	if found {
		r.id, err = createdBy(was, a)
		return err
	}
	r.id = id
	if fenced, err := tx.HasFence(who.Principal, "session", "", a.SessionID); err != nil {
		return err
	} else if fenced {
		return sessions.Errorf(sessions.CodeFenced, "session %s was cancelled before it was created", a.SessionID).Do("take a new session_id")
	}
	row := journal.Session{ID: id.session, Principal: who.Principal, Runner: a.Runner, Cwd: a.Cwd, Title: a.Title,
		Generation: id.generation, Asked: a.Selection(), Settings: keptSettings(a.Settings, who.Folders), WorkspaceID: sessions.DerivedID("workspace", "", a.Cwd)}
	if a.native != "" {
		if err := notAdopted(tx, r.cfg, who, a.Runner, a.native); err != nil {
			return err
		}
		row.NativeID, row.HadTurn, row.Origin = a.native, true, sessions.OriginAdopted
		row.Capability.Resume = true // it is what the agent is asked for; what it reports takes its place
	}
	if err := tx.InsertSession(&row); err != nil {
		return err
	}
	if err := h.begin(tx, c, id.session, id.generation, a.Cwd, r.runner, r.launch, who, false); err != nil {
		return err
	}
	if a.Prompt != "" {
		if err := tx.InsertCommand(&journal.Command{Command: sessions.Command{CommandID: a.CommandID, Session: id.session}, Principal: who.Principal,
			Text: a.Prompt}); err != nil {
			return err
		}
	}
	result, err := json.Marshal(map[string]string{"command": id.command, "generation": id.generation})
	if err != nil {
		return err
	}
	for _, key := range slices.Compact([]string{a.SessionID, a.Key}) {
		if key == "" {
			continue
		}
		if err := tx.PutOperation(journal.Operation{Principal: who.Principal, Key: key, Verb: a.verb, Scope: id.session, Meaning: a.mean, State: "done", Result: result}); err != nil {
			return err
		}
	}
	return nil
}

// roomForOne refuses a start beyond the bound of live sessions. Starts at the same moment may pass it by as many.
func (h *Host) roomForOne() error {
	if n := h.Live(); n >= h.o.MaxSessions {
		return sessions.Errorf(sessions.CodeLimitExceeded, "%d sessions are live, the limit is %d", n, h.o.MaxSessions).
			Do("close one that is no longer needed")
	}
	return nil
}

// reserved finds what the keys of a create made before. A key that was not given with it then stands for it from now on.
func (h *Host) reserved(ctx context.Context, who sessions.Caller, a creation) (id created, found bool, err error) {
	var was journal.Operation
	var lacks []string
	look := func(tx *journal.Tx) (err error) {
		was, lacks, found, err = reservedIn(tx, who, a)
		if err == nil && found {
			id, err = createdBy(was, a)
		}
		return err
	}
	if err := h.look(ctx, look); err != nil || !found || len(lacks) == 0 {
		return id, found, err
	}
	err = h.update(ctx, func(tx *journal.Tx, _ *changes) error {
		if err := look(tx); err != nil {
			return err
		}
		for _, key := range lacks {
			op := was
			op.Key = key
			if err := tx.PutOperation(op); err != nil {
				return err
			}
		}
		return nil
	})
	return id, found, err
}

// reservedIn looks both keys of a create up; they must name the same session. lacks are those that name none yet.
func reservedIn(tx *journal.Tx, who sessions.Caller, a creation) (was journal.Operation, lacks []string, found bool, err error) {
	for _, key := range []string{a.Key, a.SessionID} {
		op, there, err := replay(tx, who, key, a.verb, a.mean)
		switch {
		case err != nil:
			return was, nil, false, err
		case key != "" && !there:
			lacks = append(lacks, key)
		case there && (found && op.Scope != was.Scope || a.SessionID != "" && a.SessionID != op.Scope):
			return was, nil, false, journal.KeyConflict(op)
		case there:
			was, found = op, true
		}
	}
	return was, lacks, found, nil
}

// createdBy reads what a create came to.
func createdBy(op journal.Operation, a creation) (created, error) {
	var r map[string]string
	if err := json.Unmarshal(op.Result, &r); err != nil {
		return created{}, err
	}
	if a.CommandID != "" && a.CommandID != r["command"] {
		return created{}, journal.KeyConflict(op)
	}
	return created{session: op.Scope, generation: r["generation"], command: r["command"]}, nil
}

// created waits for a session to be ready, and for its first command where the caller gave a time for that.
func (h *Host) created(ctx context.Context, who sessions.Caller, id created, a sessions.CreateArgs, wait time.Duration) (sessions.CreateResult, error) {
	res := sessions.CreateResult{}
	whole := a.Prompt != "" && a.WaitSeconds != nil
	v, _, err := h.await(ctx, who.Principal, id.session, wait, func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		switch v.State {
		case sessions.SessionReserved, sessions.SessionStarting:
			return false, nil
		}
		if v.State == sessions.SessionFailed { // its processes are gone before the caller hears of it
			return ended(tx, id.session)
		}
		if id.command == "" {
			return true, nil
		}
		cmd, found, err := tx.FindCommand(id.session, id.command)
		if err != nil || !found {
			return true, err
		}
		res.Command = &cmd.Command
		if !whole {
			return true, nil
		}
		if !cmd.State.Settled() {
			return asks(v) || !v.State.Live(), nil
		}
		text, err := finalText(tx, id.session, id.command)
		res.Text = clip(text, sessions.DefaultMaxChars)
		return true, err
	})
	if err != nil {
		return res, err
	}
	res.Session = v
	if v.State == sessions.SessionFailed && v.Error != nil && v.Generation == id.generation {
		return res, v.Error.With("session_id", id.session)
	}
	return res, nil
}

// plan makes everything that a launch needs, or refuses.
func (h *Host) plan(who sessions.Caller, session, generation, name string, w workspace, s sessions.Settings) (launch, config.Runner, error) {
	getenv := lookup(who.Env)
	cfg, err := h.config()
	if err != nil {
		return launch{}, config.Runner{}, err
	}
	runner, err := cfg.Resolve(name, w.cwd, getenv)
	if err != nil {
		return launch{}, runner, err
	}
	if err := h.checkSandbox(cfg, runner.Protocol, name, s.Sandbox); err != nil {
		return launch{}, runner, err
	}
	if err := w.narrow(s.Sandbox); err != nil {
		return launch{}, runner, err
	}
	if len(s.MCPServers) > 0 && runner.Protocol == protocolACP {
		return launch{}, runner, sessions.Errorf(sessions.CodeUnsupported, "mcp_servers were given, and runner %s takes none per session", name).
			Do("configure them in the agent itself")
	}
	runner, options, err := runner.Start(config.Wish{Selection: s.Selection(), Roots: w.roots, Options: s.RunnerOptions})
	if err != nil {
		return launch{}, runner, err
	}
	hidden, err := h.hidden(cfg, who, runner, append([]string{w.cwd}, w.roots...)...)
	if err != nil {
		return launch{}, runner, err
	}
	extra := runner.Variables(getenv)
	for k, v := range s.Env {
		extra[k] = v
	}
	lead := ""
	if !runner.Embedded {
		lead = filepath.Dir(runner.Executable)
	}
	spec := bridge.Spec{Protocol: runner.Protocol, Argv: runner.Argv, Dir: w.cwd, Pins: w.pins,
		Env:              env.Build(env.Allowed(who.Env), extra, s.EnvUnset, lead),
		HandshakeSeconds: whole(cfg.Host.HandshakeTimeout, 60*time.Second), OrphanSeconds: whole(cfg.Host.OrphanGrace, 15*time.Minute),
		Open: sessions.OpenParams{Session: session, Generation: generation, Runner: name, Cwd: w.cwd, Selection: s.Selection(),
			WritableRoots: w.roots, MCPServers: s.MCPServers, Options: options, Hidden: hidden},
		Secret: slices.Sorted(maps.Keys(s.Env))}
	files, err := h.files(runner, &spec, who.Folders)
	if err != nil {
		return launch{}, runner, err
	}
	return launch{spec: spec, files: files, hidden: hidden, account: account(accountEnv(who.Env, s))}, runner, nil
}

// whole is a configured duration in seconds, at least one; what is not set, or has no end, is the default.
func whole(d config.Duration, byDefault time.Duration) int {
	if d <= 0 {
		d = config.Duration(byDefault)
	}
	return max(1, int(time.Duration(d).Round(time.Second)/time.Second))
}

// begin moves a session to starting, with a generation and its first input.
func (h *Host) begin(tx *journal.Tx, c *changes, session, generation, cwd string, runner config.Runner, l launch, who sessions.Caller, runQueue bool) error {
	if _, err := tx.MoveSession(session, sessions.SessionStart, func(s *journal.Session) { s.Generation, s.Error = generation, nil }); err != nil {
		return err
	}
	if err := tx.InsertGeneration(&journal.Generation{ID: generation, Session: session, Cwd: cwd, Executable: runner.Executable, Argv: runner.Argv,
		AccountDigest: l.account}); err != nil {
		return err
	}
	if _, err := tx.AppendInput(generation, string(bridge.InOpen), session, openPayload{RunQueue: runQueue}); err != nil {
		return err
	}
	c.touch(session, true)
	return nil
}
