package appserver

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Open shakes hands, starts or resumes the thread and confirms what was asked for.
//
// A thread always begins read-only and is raised to its sandbox afterwards: thread/start with a wider sandbox writes
// the folder as trusted into the user's config.toml, which changes the defaults of every later thread there;
// thread/settings/update does not. Versions before 0.144 lack that; whoever does not mind the mark says trust_folder.
// Writable roots of a read-only thread are a permission profile, with which it begins.
func (a *Agent) Open(ctx context.Context, p sessions.OpenParams) (sessions.Opened, error) {
	opened, err := a.open(ctx, p)
	if err != nil {
		return sessions.Opened{}, openError(err)
	}
	return opened, nil
}

func openError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return sessions.Errorf(sessions.CodeTimeout, "Codex was not ready in time: %w", err).Do("try again; see the session's log if it stays like this")
	}
	return asError(err)
}

func (a *Agent) open(ctx context.Context, p sessions.OpenParams) (opened sessions.Opened, err error) {
	if err := checkNames(p.Selection); err != nil {
		return opened, err
	}
	if len(p.WritableRoots) > 0 && p.Selection.Sandbox == "" {
		return opened, sessions.Errorf(sessions.CodeInvalidParams, "writable_roots were given without a sandbox").
			Do("ask for sandbox %s or %s", sessions.SandboxWorkspaceWrite, sessions.SandboxReadOnly)
	}
	if err := checkProfile(p); err != nil {
		return opened, err
	}
	options, err := parseOptions(p.Options)
	if err != nil {
		return opened, err
	}
	config, err := options.threadConfig(p.Selection.Effort, p.MCPServers)
	if err != nil {
		return opened, err
	}
	models, v, err := a.handshake(ctx)
	if err != nil {
		return opened, err
	}
	if needsProfile(p) && !v.atLeast(profileMinor) {
		return opened, errNoProfiles(v)
	}
	if err := models.check(p.Selection.Model, p.Selection.Effort, ""); err != nil {
		return opened, err
	}
	switch login, err := a.login(ctx); {
	case err != nil:
		return opened, err
	case login == "no":
		return opened, errNotLoggedIn
	}
	if err := a.learnStanding(ctx, p.MCPServers); err != nil {
		return opened, err
	}

	params := threadParams{
		Cwd: p.Cwd, Model: models.slug(p.Selection.Model), Sandbox: sessions.SandboxReadOnly,
		ApprovalPolicy: p.Selection.ApprovalPolicy, ApprovalsReviewer: reviewerUser,
		DeveloperInstructions: options.instructions, Config: config,
	}
	profile := ""
	switch {
	case needsProfile(p):
		profile = options.startWithProfile(&params, p)
	case options.trust:
		options.startTrusted(&params, p)
	}
	goal, release, err := a.holdGoal(ctx, p.NativeID)
	if err != nil {
		return opened, err
	}
	thread, recreated, err := a.openThread(ctx, p, params, profile, options.network)
	if err != nil {
		release()
		return opened, profileRefused(err, params)
	}
	if err := models.check("", p.Selection.Effort, thread.Model); err != nil {
		return opened, err
	}
	evidence, err := a.confirm(ctx, p.Selection)
	if err != nil {
		return opened, err
	}
	opened = sessions.Opened{NativeID: thread.Thread.ID, Evidence: evidence, Recreated: recreated,
		Capability: capability(models, v, thread.Model), Data: map[string]any{}}
	if p.Replay && !recreated {
		if opened.History, err = a.conversationPast(ctx); err != nil {
			return opened, err
		}
	}
	if thread.Thread.Path != "" {
		opened.Data["rollout"] = filepath.Clean(thread.Thread.Path)
	}
	if recreated {
		opened.Settled = undelivered(p.Unknown)
	} else if p.NativeID != "" {
		if opened.Settled, err = a.settleUnknown(ctx, p.Unknown, p.Turns); err != nil {
			return opened, err
		}
	}
	return opened, a.do(ctx, func() {
		a.budget.tokens, a.budget.limit = options.tokens, time.Duration(options.seconds)*time.Second
		a.opened = true
		a.tellGoal(goal, options.goal)
	})
}

// openThread starts a thread or resumes one. A thread is on disk only after its first turn, so that one which never
// ran any has nothing to resume.
func (a *Agent) openThread(ctx context.Context, p sessions.OpenParams, params threadParams, profile string, network bool) (*threadResult, bool, error) {
	took := func(r *threadResult) func() {
		return func() {
			a.root = r.Thread.ID
			a.budget.inherit(p.Spent)
			a.sel.cwd, a.sel.roots, a.sel.network, a.sel.profile = p.Cwd, p.WritableRoots, network, profile
			a.sel.asked = p.Selection
			a.sel.evidence.Raw = rawEvidence(r)
			a.sel.report(r.settings(), a.models, a.version)
		}
	}
	recreated := false
	if p.NativeID != "" {
		var r threadResult
		resume := params
		resume.ThreadID, resume.ExcludeTurns = p.NativeID, true
		err := a.ask(ctx, "thread/resume", resume, &r, took(&r))
		switch {
		case err == nil && r.Thread.ID != p.NativeID:
			return nil, false, sessions.Errorf(sessions.CodeAgentProtocol, "thread %s was to be resumed, Codex opened %s", p.NativeID, r.Thread.ID).
				Do("create a new session")
		case err == nil:
			return &r, false, nil
		case otherWriter(err):
			return nil, false, sessions.Errorf(sessions.CodeBusy, "another process has thread %s open: %w", p.NativeID, err).
				Do("end the Codex that uses this thread, then resume again")
		case noRollout(err) && p.HadTurn:
			return nil, false, sessions.Errorf(sessions.CodeNotFound, "Codex has no record of thread %s, although it ran turns: %w", p.NativeID, err).
				Do("check that CODEX_HOME is the one the thread was created in and that its file was not removed")
		case !noRollout(err):
			return nil, false, err
		}
		recreated = true
	}
	var r threadResult
	if err := a.ask(ctx, "thread/start", params, &r, took(&r)); err != nil {
		return nil, false, err
	}
	if r.Thread.ID == "" {
		return nil, false, sessions.Errorf(sessions.CodeAgentProtocol, "Codex named no id for the new thread").Do("update Codex")
	}
	if err := sessions.CheckAgentID("the thread", r.Thread.ID); err != nil {
		return nil, false, err
	}
	return &r, recreated, nil
}

// confirm raises the thread to what was asked and returns the evidence for all of it.
func (a *Agent) confirm(ctx context.Context, want sessions.Selection) (sessions.Evidence, error) {
	result := make(chan error, 1)
	var sent error
	err := a.do(ctx, func() {
		// Only these are raised. Anything else went with the start itself, which has not done as it was told.
		for _, d := range a.sel.differences() {
			raised := d.Name == "mode"
			switch d.Name {
			case "sandbox", "writable_roots", "network_access":
				raised = a.sel.profile == ""
			}
			if !raised {
				sent = sessions.UnconfirmedError([]sessions.Difference{d})
				return
			}
		}
		sent = a.changeSettings(ctx, want, func(err error) {
			if err != nil { // a session that could not be opened takes no prompt either
				a.sel.asked = want
				a.sel.report(a.sel.settings, a.models, a.version)
			}
			result <- err
		})
	})
	if err == nil {
		err = sent
	}
	if err != nil {
		return sessions.Evidence{}, err
	}
	select {
	case err = <-result:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-a.life.Done():
		err = context.Cause(a.life)
	}
	if err != nil {
		return sessions.Evidence{}, err
	}
	var e sessions.Evidence
	return e, a.do(ctx, func() { e = a.sel.evidence })
}

func capability(models catalog, v version, inForce string) sessions.Capabilities {
	c := sessions.Capabilities{Resume: true, Steer: true, Images: true, Modes: v.modes()}
	if m := models.find(inForce); m != nil {
		c.Images = m.takesImages()
	}
	return c
}

// isRoot tells our thread's messages from those of sub-agents.
func (a *Agent) isRoot(thread string) bool { return thread == "" || a.root == "" || thread == a.root }
