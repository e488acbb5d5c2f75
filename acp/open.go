package acp

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// open is Open, on the loop.
func (a *Agent) open(ctx context.Context, p sessions.OpenParams) (sessions.Opened, error) {
	var none sessions.Opened
	if a.phase != phaseNew {
		return none, sessions.Errorf(sessions.CodeNotRunning, "this agent was opened before, or is closing")
	}
	a.profile = profileOf(p.Runner, "")
	native, err := a.admit(p)
	if err != nil {
		return none, err
	}
	a.phase, a.cwd = phaseOpening, p.Cwd
	a.openFiles(p)
	opened, err := a.handshake(ctx, p, native)
	switch {
	case a.phase == phaseClosing && err == nil: // Close came in between
		return none, sessions.Errorf(sessions.CodeNotRunning, "the session was closed while it was opened")
	case a.phase == phaseClosing:
		return none, err
	case err != nil:
		a.phase = phaseFailed
		return none, err
	}
	a.phase = phaseOpen
	a.settings.said = a.settings.summary()
	return opened, nil
}

// admit refuses what the protocol has no way to do, before anything is sent.
func (a *Agent) admit(p sessions.OpenParams) (map[string]string, error) {
	if !filepath.IsAbs(p.Cwd) {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "cwd %q is not absolute", p.Cwd).Do("give an absolute path")
	}
	if _, err := a.profile.preset(p.Selection); err != nil {
		return nil, err
	}
	if err := a.profile.takesRoots(p); err != nil {
		return nil, err
	}
	if len(p.MCPServers) > 0 {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "MCP servers cannot be passed to this agent").
			Do("configure them in the agent itself")
	}
	switch asked := p.Selection.Sandbox; {
	case p.BridgeSandbox != "":
		a.sandbox, a.sandboxBy = p.BridgeSandbox, "bridge"
		if asked != "" && asked != p.BridgeSandbox && asked != sessions.SandboxFullAccess {
			return nil, sessions.Errorf(sessions.CodeSandboxUnavailable, "sandbox %q was asked, %q is enforced around the agent",
				asked, p.BridgeSandbox).Do("ask for %s", p.BridgeSandbox)
		}
	case a.profile.sandboxed() && asked != "":
		a.sandbox, a.sandboxBy = asked, "agent"
	case asked == sessions.SandboxFullAccess:
		a.sandbox, a.sandboxBy = asked, "none"
	case asked != "":
		return nil, sessions.Errorf(sessions.CodeSandboxUnavailable, "sandbox %q was asked and nothing enforces one around an ACP agent here", asked).
			Do("see what `baton doctor` says about containment, or ask for danger-full-access")
	}
	native, err := nativeOptions(p.Options)
	if err != nil {
		return nil, err
	}
	if method, given := native[optionAuth]; given {
		a.o.AuthMethod = method
		delete(native, optionAuth)
	}
	return native, nil
}

// login is the sentence that tells a user how to log in.
func (a *Agent) login() string {
	var methods []string
	for _, m := range a.initial.AuthMethods {
		if m.Type != "terminal" && m.ID != cursorLogin {
			methods = append(methods, m.ID)
		}
	}
	how := "log in with the agent's own command in a terminal"
	switch {
	case a.cursor:
		how = "run `cursor-agent login` in a terminal, or set CURSOR_API_KEY"
	case a.profile.login != "":
		how = "run `" + a.profile.login + "` in a terminal"
	}
	if len(methods) > 0 && a.o.AuthMethod == "" {
		how += ", or give runner_options " + optionAuth + ", which the agent takes as: " + list(methods)
	}
	return how + ", then try again"
}

func (a *Agent) handshake(ctx context.Context, p sessions.OpenParams, native map[string]string) (sessions.Opened, error) {
	var opened sessions.Opened
	if err := a.initialize(ctx, p.Runner); err != nil {
		return opened, err
	}
	if err := a.profile.takesRoots(p); err != nil { // who it is was not known before
		return opened, err
	}
	if err := a.authenticate(ctx); err != nil {
		return opened, err
	}
	recreated, err := a.converse(ctx, p)
	if err != nil {
		return opened, err
	}
	if err := a.choose(ctx, asked{Selection: p.Selection, native: native}, true); err != nil {
		return opened, err
	}
	e := a.evidence()
	if err := a.unconfirmed(p.Selection.Unconfirmed(e)); err != nil {
		return opened, err
	}
	caps := a.initial.AgentCapabilities
	return sessions.Opened{
		NativeID: a.session,
		Evidence: e,
		Capability: sessions.Capabilities{
			Resume:  caps.LoadSession || offered(caps.SessionCapabilities.Resume),
			Images:  caps.PromptCapabilities.Image,
			Modes:   a.settings.offeredModes(),
			Details: kept(caps.raw),
		},
		Recreated: recreated,
		History:   a.retold(),
	}, nil
}

func (a *Agent) initialize(ctx context.Context, runner string) error {
	hello := newInitialize(a.o)
	hello.ClientCapabilities.Terminal = a.offersTerminals()
	if a.files.space != nil {
		hello.ClientCapabilities.FS = &fileCapabilities{Read: true, Write: a.files.writable != nil}
	}
	m, err := a.call(ctx, methodInitialize, hello, a.o.HandshakeTimeout)
	if err != nil {
		return a.answeredError(methodInitialize, err)
	}
	r, err := readInitialize(m)
	if err != nil {
		return err
	}
	a.initial = r
	a.cursor = runner == "cursor" || r.lists(cursorLogin) != nil
	a.profile = profileOf(runner, r.AgentInfo.Name)
	a.settings.modeID = a.profile.modeOption
	return nil
}

// readInitialize refuses every version but ours, before anything else is sent.
func readInitialize(m wire.Message) (initializeResult, error) {
	var r initializeResult
	if err := decode(m.Result, &r); err != nil {
		return r, sessions.Errorf(sessions.CodeAgentProtocol, "the agent's answer to initialize cannot be read: %w", err)
	}
	if v := string(r.ProtocolVersion); v != "1" {
		if v == "" {
			v = "none"
		}
		return r, sessions.Errorf(sessions.CodeUnsupported, "the agent speaks ACP version %s, Baton speaks version %d", v, protocolVersion).
			Do("install a version of the agent that speaks ACP version %d", protocolVersion)
	}
	return r, nil
}

func (r *initializeResult) lists(method string) *authMethod {
	for i := range r.AuthMethods {
		if r.AuthMethods[i].ID == method {
			return &r.AuthMethods[i]
		}
	}
	return nil
}

// authenticate runs the configured method, or Cursor's login, which for a logged-in user only answers {}. A signed-out
// Cursor opens a browser, never answers (15 s were waited), or fails with whatever code; all of it means that a person
// has to log in. With an API key session/new works without (2026.09), and tells when the key is no good.
func (a *Agent) authenticate(ctx context.Context) error {
	id := a.o.AuthMethod
	switch {
	case len(a.initial.AuthMethods) == 0 || id == "" && (a.o.APIKey || a.initial.lists(cursorLogin) == nil):
		return nil
	case id == "":
		id = cursorLogin
	}
	method := a.initial.lists(id)
	if method == nil || method.Type == "terminal" {
		var ids []string
		for _, m := range a.initial.AuthMethods {
			if m.Type != "terminal" {
				ids = append(ids, m.ID)
			}
		}
		return sessions.Errorf(sessions.CodeUnsupported, "authentication method %q cannot be called on this agent", id).
			Do("configure one of: %s; for a terminal method run its program yourself", list(ids))
	}
	params := struct {
		MethodID string         `json:"methodId"`
		Meta     map[string]any `json:"_meta"`
	}{id, map[string]any{"headless": true}}
	_, err := a.call(ctx, methodAuthenticate, params, a.o.AuthTimeout)
	var e *wire.ResponseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return a.notLoggedIn(methodAuthenticate, e)
	case sessions.CodeOf(err) == sessions.CodeTimeout && ctx.Err() == nil:
		return sessions.Errorf(sessions.CodeNotLoggedIn, "the agent did not answer authenticate (%s) within %s", id, a.o.AuthTimeout).
			Do("%s", a.login())
	}
	return err
}

// converse gets the conversation: a new one, or the one to resume.
func (a *Agent) converse(ctx context.Context, p sessions.OpenParams) (recreated bool, err error) {
	if p.NativeID == "" {
		return false, a.newSession(ctx, p.Cwd)
	}
	nothing, err := a.resume(ctx, p)
	if err == nil || !nothing || p.HadTurn {
		return false, err
	}
	// Cursor does not keep a conversation that never had a turn (2026.09.18).
	return true, a.newSession(ctx, p.Cwd)
}

func (a *Agent) newSession(ctx context.Context, cwd string) error {
	params := sessionParams{Cwd: cwd, MCPServers: []struct{}{}}
	m, err := a.call(ctx, methodNew, params, a.o.HandshakeTimeout)
	var e *wire.ResponseError
	if errors.As(err, &e) && e.Code == wire.CodeInternalError && strings.Contains(errorText(e), "Failed to initialize session services") {
		// Transient in Cursor. Nothing exists yet, so once more is safe.
		m, err = a.call(ctx, methodNew, params, a.o.HandshakeTimeout)
	}
	if err != nil {
		return a.answeredError(methodNew, err)
	}
	var r sessionResult
	if err := decode(m.Result, &r); err != nil || r.SessionID == "" {
		return sessions.Errorf(sessions.CodeAgentProtocol, "the agent's answer to session/new names no session")
	}
	if err := sessions.CheckAgentID("the session", r.SessionID); err != nil {
		return err
	}
	a.session = r.SessionID
	a.settings.opened(r)
	return nil
}

// resume takes an old conversation up again. nothing says that the agent knows none of that id.
func (a *Agent) resume(ctx context.Context, p sessions.OpenParams) (nothing bool, err error) {
	caps, method := a.initial.AgentCapabilities, ""
	switch {
	case caps.LoadSession:
		method = methodLoad
	case offered(caps.SessionCapabilities.Resume):
		method = methodResume
	default:
		return true, sessions.Errorf(sessions.CodeUnsupported, "this agent cannot resume a conversation").Do("create a new session")
	}
	a.session, a.resumed, a.replay = p.NativeID, true, true
	if p.Replay && method == methodLoad {
		a.retelling = newRetelling(a.o.Redact)
	}
	params := sessionParams{SessionID: p.NativeID, Cwd: p.Cwd, MCPServers: []struct{}{}}
	m, err := a.call(ctx, method, params, a.o.LoadTimeout)
	a.replay = false
	if err != nil {
		a.session, a.resumed = "", false
		var e *wire.ResponseError
		if errors.As(err, &e) && !a.mustLogIn(e) {
			switch e.Code {
			// An unknown id: Cursor -32602, OpenCode, Gemini and codex-acp -32603, Claude, Qwen and zed -32002.
			case wire.CodeInvalidParams, wire.CodeInternalError, codeNoResource:
				return a.notLoaded(ctx, p, sessions.Errorf(sessions.CodeNotFound, "the agent cannot load conversation %s: %w", p.NativeID, e).
					Do("check that its files and directory %s are as they were, or create a new session", p.Cwd).
					With("cause", errorText(e)))
			}
		}
		return false, a.answeredError(method, err)
	}
	var r sessionResult
	if err := decode(m.Result, &r); err != nil {
		return false, sessions.Errorf(sessions.CodeAgentProtocol, "the agent's answer to %s cannot be read: %w", method, err)
	}
	if r.SessionID != "" && r.SessionID != p.NativeID {
		a.session = ""
		return false, sessions.Errorf(sessions.CodeAgentProtocol, "identity changed: conversation %s was asked, the agent answered with %s",
			p.NativeID, r.SessionID).Do("create a new session; the old one was left as it is").
			With("asked", p.NativeID).With("reported", r.SessionID)
	}
	a.settings.opened(r)
	return false, nil
}

// answeredError is the refusal for a call that failed, where no special meaning is known.
func (a *Agent) answeredError(method string, err error) error {
	var e *wire.ResponseError
	if errors.As(err, &e) {
		return a.agentError(method, e)
	}
	return err
}

func (a *Agent) agentError(what string, e *wire.ResponseError) *sessions.Error {
	switch {
	case a.mustLogIn(e):
		return a.notLoggedIn(what, e)
	case e.Code == wire.CodeMethodNotFound:
		return sessions.Errorf(sessions.CodeUnsupported, "the agent does not know %s: %w", what, e).Do("use a newer version of the agent")
	}
	return sessions.Errorf(sessions.CodeAgentProtocol, "the agent answered %s with an error: %w: %s", what, e, errorText(e)).
		With("code", e.Code).With("data", e.Data)
}

// mustLogIn tells an error that means "signed out". A headless Cursor with a browser login says -32602, and the
// text is the only mark.
func (a *Agent) mustLogIn(e *wire.ResponseError) bool {
	return e.Code == codeAuthRequired || strings.Contains(errorText(e), "Failed to open browser for login")
}

func (a *Agent) notLoggedIn(what string, e *wire.ResponseError) *sessions.Error {
	return sessions.Errorf(sessions.CodeNotLoggedIn, "the agent wants a login before %s: %w: %s", what, e, errorText(e)).
		Do("%s", a.login()).With("code", e.Code)
}

// errorText is what an error says beside its message, which is often no more than "Internal error".
func errorText(e *wire.ResponseError) string {
	var text string
	if json.Unmarshal(e.Data, &text) == nil && text != "" {
		return text
	}
	var data struct {
		Message string `json:"message"`
		Details string `json:"details"`
	}
	if decode(e.Data, &data) == nil && data.Message+data.Details != "" {
		return strings.TrimSpace(data.Message + " " + data.Details)
	}
	return e.Message
}

// close is Close, on the loop.
func (a *Agent) close(ctx context.Context) error {
	if a.phase == phaseClosing {
		return nil
	}
	open := a.phase == phaseOpen
	a.phase = phaseClosing
	if a.turn != nil {
		if err := a.cancelTurn(ctx, "the session was closed"); err != nil {
			a.log.Debug().Err(err).Msg("cancel at close")
		}
	}
	if open && offered(a.initial.AgentCapabilities.SessionCapabilities.Close) {
		started := time.Now()
		if _, err := a.call(ctx, methodClose, sessionID{a.session}, a.o.CloseTimeout); err != nil {
			a.log.Debug().Err(err).Dur("after", time.Since(started)).Msg("session/close")
		}
	}
	return a.conn.CloseInput()
}
