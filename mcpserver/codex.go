package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// The compatibility profile: the two tools of `codex mcp-server` (as Codex 0.144 had them, withdrawn since), on top of
// sessions. A thread is a session of the runner codex, and survives every process. A call that reaches the end of its
// time answers with the thread and what there is so far; codex-reply with an empty prompt goes on waiting.

// CompatCodex is the name of that profile in Options.
const CompatCodex = "codex"

type codexArgs struct {
	Prompt                string         `json:"prompt" jsonschema:"The initial user prompt to start the Codex conversation."`
	Model                 string         `json:"model,omitempty" jsonschema:"model for this thread"`
	Cwd                   string         `json:"cwd,omitempty" jsonschema:"working directory; a relative one is below that of this server, which is the default"`
	ApprovalPolicy        string         `json:"approval-policy,omitempty" jsonschema:"when to ask before commands run"`
	Sandbox               string         `json:"sandbox,omitempty" jsonschema:"read-only, workspace-write or danger-full-access"`
	Config                map[string]any `json:"config,omitempty" jsonschema:"settings that override config.toml"`
	BaseInstructions      string         `json:"base-instructions,omitempty" jsonschema:"not supported: use developer-instructions"`
	DeveloperInstructions string         `json:"developer-instructions,omitempty" jsonschema:"instructions in the developer role"`
	CompactPrompt         string         `json:"compact-prompt,omitempty" jsonschema:"prompt for compacting the conversation"`
}

type codexReplyArgs struct {
	Prompt         string `json:"prompt" jsonschema:"the next prompt; an empty one goes on waiting for the turn that runs"`
	ThreadID       string `json:"threadId,omitempty" jsonschema:"the thread of the conversation"`
	ConversationID string `json:"conversationId,omitempty" jsonschema:"deprecated: use threadId"`
}

// codexResult is the answer of both tools.
type codexResult struct {
	ThreadID string `json:"threadId"`
	Content  string `json:"content"`
}

// codexTools are the tools of the profile.
func codexTools() []tool {
	output := &schema{Type: "object", Members: []member{{"threadId", &schema{Type: "string"}}, {"content", &schema{Type: "string"}}}, Required: []string{"threadId", "content"}}
	start := tool{name: "codex", title: "Codex", description: "Run a Codex session: start a conversation with the Codex coding agent. A long turn returns what there is so far with its threadId, and goes on: call codex-reply with an empty prompt to wait for it.",
		input: inputSchema[codexArgs](), output: output, result: func() *schema { return output }, destructive: true, changes: true}
	start.call = func(ctx context.Context, s *Server, raw json.RawMessage, m callMeta) *mcp.CallToolResult {
		var a codexArgs
		if err := start.decode(raw, &a); err != nil {
			return codexFailure("", err)
		}
		return s.codexStart(ctx, a, m)
	}
	reply := tool{name: "codex-reply", title: "Codex Reply", description: "Continue a Codex conversation by its threadId: send the next prompt, or wait for the turn that runs with an empty prompt.",
		input: inputSchema[codexReplyArgs](), output: output, result: func() *schema { return output }, destructive: true}
	reply.call = func(ctx context.Context, s *Server, raw json.RawMessage, m callMeta) *mcp.CallToolResult {
		var a codexReplyArgs
		if err := reply.decode(raw, &a); err != nil {
			return codexFailure("", err)
		}
		return s.codexReply(ctx, a, m)
	}
	return []tool{start, reply}
}

// decode checks the arguments of a call and reads them.
func (t *tool) decode(raw json.RawMessage, into any) error {
	args, err := t.input.arguments(t.name, raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(args, into)
}

func codexFailure(thread string, err error) *mcp.CallToolResult {
	r := failure(err)
	text, _ := r.Content[0].(mcp.TextContent)
	raw, _ := json.Marshal(codexResult{thread, text.Text})
	r.StructuredContent = json.RawMessage(raw)
	return r
}

func (s *Server) codexStart(ctx context.Context, a codexArgs, m callMeta) *mcp.CallToolResult {
	if a.BaseInstructions != "" {
		return codexFailure("", sessions.Errorf(sessions.CodeUnsupported, "base-instructions cannot be replaced through Codex's app-server as Baton uses it").
			Do("use developer-instructions"))
	}
	if strings.TrimSpace(a.Prompt) == "" {
		return codexFailure("", sessions.Errorf(sessions.CodeInvalidParams, "the prompt is empty").Do("give what Codex shall do; codex-reply waits for a turn that runs"))
	}
	here, err := os.Getwd()
	if err != nil {
		return codexFailure("", sessions.Errorf(sessions.CodeInvalidParams, "the working directory of this server is not known: %w", err).Do("give an absolute cwd"))
	}
	if a.Cwd == "" {
		a.Cwd = here
	} else if !filepath.IsAbs(a.Cwd) {
		a.Cwd = filepath.Join(here, a.Cwd)
	}
	options := map[string]any{}
	config := maps.Clone(a.Config)
	if a.CompactPrompt != "" {
		if config == nil {
			config = map[string]any{}
		}
		config["compact_prompt"] = a.CompactPrompt
	}
	if config != nil {
		options["config"] = config
	}
	if a.DeveloperInstructions != "" {
		options["developer_instructions"] = a.DeveloperInstructions
	}
	key := m.key()
	create := sessions.CreateArgs{Runner: "codex", Cwd: a.Cwd, Key: key, Prompt: a.Prompt, CommandID: sessions.DerivedID("codex", "", key),
		Settings: sessions.Settings{Model: a.Model, Sandbox: a.Sandbox, ApprovalPolicy: a.ApprovalPolicy}}
	if len(options) > 0 {
		create.RunnerOptions = options
	}
	return s.codexTurn(ctx, "", m, key, func(ctx context.Context, wait *int) (sessions.Session, *sessions.Command, string, error) {
		create.WaitSeconds = wait
		r, err := s.api.Create(ctx, s.caller(ctx), create)
		return r.Session, r.Command, r.Text, err
	})
}

func (s *Server) codexReply(ctx context.Context, a codexReplyArgs, m callMeta) *mcp.CallToolResult {
	thread := a.ThreadID
	if thread == "" {
		thread = a.ConversationID
	}
	id, err := s.codexThread(ctx, thread)
	if err != nil {
		return codexFailure(thread, err)
	}
	key := m.key()
	if strings.TrimSpace(a.Prompt) == "" {
		return s.codexTurn(ctx, thread, m, key, func(ctx context.Context, wait *int) (sessions.Session, *sessions.Command, string, error) {
			r, err := s.api.Wait(ctx, s.caller(ctx), sessions.WaitArgs{SessionIDs: []string{id}, WaitSeconds: wait})
			if err != nil {
				return sessions.Session{}, nil, "", err
			}
			for _, w := range r.Sessions {
				return w.Session, lastCommand(w.Session), w.Text, nil
			}
			now, err := s.session(ctx, id)
			return now, lastCommand(now), "", err
		})
	}
	send := sessions.SendArgs{SessionID: id, Text: a.Prompt, CommandID: key}
	return s.codexTurn(ctx, thread, m, key, func(ctx context.Context, wait *int) (sessions.Session, *sessions.Command, string, error) {
		send.WaitSeconds = wait
		r, err := s.api.Send(ctx, s.caller(ctx), send)
		if sessions.CodeOf(err) == sessions.CodeNotRunning { // a thread survives the end of its process
			if _, rerr := s.api.Resume(ctx, s.caller(ctx), sessions.ResumeArgs{SessionID: id, Key: "resume-" + key, WaitSeconds: wait}); rerr != nil {
				return r.Session, nil, "", rerr
			}
			r, err = s.api.Send(ctx, s.caller(ctx), send)
		}
		return r.Session, &r.Command, r.Text, err
	})
}

// codexThread finds the session of a thread, by our id or by Codex's own.
func (s *Server) codexThread(ctx context.Context, thread string) (string, error) {
	missing := sessions.Errorf(sessions.CodeNotFound, "there is no thread %.80q", thread).Do("give the threadId that codex returned")
	if thread == "" {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "codex-reply needs threadId, which was not given").Do("give the threadId that codex returned")
	}
	all, err := s.sessions(ctx)
	if err != nil {
		return "", err
	}
	for _, x := range all {
		if x.SessionID == thread || x.NativeID == thread {
			return x.SessionID, nil
		}
	}
	return "", missing
}

func lastCommand(s sessions.Session) *sessions.Command {
	if s.Running != nil {
		return s.Running
	}
	return s.Last
}

// codexTurn makes a call until its turn has ended, asks, or the time of the call is over.
func (s *Server) codexTurn(ctx context.Context, thread string, m callMeta, key string, call func(context.Context, *int) (sessions.Session, *sessions.Command, string, error)) *mcp.CallToolResult {
	ctx, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
	defer cancel()
	stop := progress(ctx, m.progressToken, "codex")
	defer stop()
	asked := s.resume(ctx, &m)
	wait := new(sessions.DefaultWaitSeconds)
	for {
		session, command, text, err := call(ctx, wait)
		if err != nil {
			return codexFailure(thread, err)
		}
		if session.NeedsInput {
			if inRounds(ctx) {
				if round := s.round(ctx, []sessions.Session{session}, m, key); round != nil {
					return round
				}
			} else if e := s.ask(ctx, []sessions.Session{session}); e != nil {
				if asked = e; e.State == dialogAnswered && shorten(ctx, &wait) {
					continue
				}
			}
		}
		return s.codexAnswer(ctx, session, command, text, asked)
	}
}

// codexAnswer is the result of a turn, or what there is of it.
func (s *Server) codexAnswer(ctx context.Context, session sessions.Session, command *sessions.Command, text string, asked *elicitation) *mcp.CallToolResult {
	failed := false
	var notes []string
	switch {
	case session.NeedsInput:
		for _, q := range session.Requests {
			notes = append(notes, "Codex asks: "+clip(oneLine(q.Title), 300)+".")
		}
		if asked != nil {
			notes = append(notes, asked.Note+".")
		} else {
			notes = append(notes, "It waits for an answer; your user gives it with: baton respond "+session.SessionID)
		}
	case session.State == sessions.SessionFailed || session.Error != nil:
		failed = true
		if session.Error != nil {
			notes = append(notes, session.Error.Message+".")
		}
		notes = append(notes, session.Recovery)
	case command == nil || !command.State.Settled():
		notes = append(notes, "The turn still runs.")
	case command.State != sessions.CommandCompleted:
		failed = true
		notes = append(notes, strings.TrimSpace(commandText(*command)))
	}
	settled := command != nil && command.State.Settled()
	if !settled && !failed {
		if text == "" && command != nil {
			text = s.textSoFar(ctx, session.SessionID, command.CommandID)
		}
		notes = append(notes, "Call codex-reply with this threadId and an empty prompt to go on waiting.")
	}
	if len(notes) > 0 {
		text = strings.TrimSpace(text + "\n\n[" + strings.Join(notes, " ") + " threadId: " + session.SessionID + "]")
	}
	raw, err := json.Marshal(codexResult{session.SessionID, text})
	if err != nil {
		return codexFailure(session.SessionID, err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: json.RawMessage(raw), IsError: failed}
}

// textSoFar is what the agent has said in a command, the end of it.
func (s *Server) textSoFar(ctx context.Context, id, command string) string {
	ctx = context.WithoutCancel(ctx) // the time of the call may be over; a read takes none
	ctx, cancel := context.WithTimeout(ctx, waitMargin)
	defer cancel()
	items := map[string]string{}
	var order []string
	a := sessions.ReadArgs{SessionID: id, Kinds: []sessions.EventKind{sessions.EventText}, Limit: sessions.MaxReadLimit, MaxChars: sessions.MaxChars}
	for {
		r, err := s.api.Read(ctx, s.caller(ctx), a)
		if err != nil {
			break
		}
		for _, e := range r.Events {
			if e.Command != command || e.Agent != "" {
				continue
			}
			if _, seen := items[e.Item]; !seen {
				order = append(order, e.Item)
			}
			if e.Final {
				items[e.Item] = ""
			}
			items[e.Item] += e.Text
		}
		if !r.HasMore || r.Cursor == a.After {
			break
		}
		a.After = r.Cursor
	}
	var parts []string
	for _, o := range order {
		parts = append(parts, items[o])
	}
	text := []rune(strings.Join(parts, "\n\n"))
	if n := len(text) - sessions.DefaultMaxChars; n > 0 {
		return "…" + string(text[n:])
	}
	return string(text)
}
