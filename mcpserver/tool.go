package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Limits of the time in which a tool answers. Hosts give up after 60 s, some after 30 s, and then call again.
const (
	slice       = sessions.DefaultSlice * time.Second
	longestWait = sessions.MaxWaitSeconds * time.Second
	// waitMargin is what a call may take beside its wait; it comes off a wait that would reach beyond the longest.
	waitMargin = 2 * time.Second
)

// errSlice is the cause of a call's context whose time is over.
var errSlice = errors.New("the time of the call is over")

// tool is one tool: its description, and the one call that it makes.
type tool struct {
	name, title, description string
	input, output            *schema
	result                   func() *schema // the whole one, which is seldom asked for
	readOnly, destructive    bool
	changes                  bool // there may be another list of sessions after it
	call                     func(ctx context.Context, s *Server, args json.RawMessage, m callMeta) *mcp.CallToolResult
}

// about is what the table of tools says about one.
type about struct {
	name, title, description string
	readOnly, destructive    bool
}

// binding ties the arguments and the result of one sessions.API method to a tool. key and wait point at the member that
// holds the idempotency key and the wait; nil where the tool has none.
type binding[A, R any] struct {
	call func(sessions.API, context.Context, sessions.Caller, A) (R, error)
	key  func(*A) *string
	wait func(*A) **int
	text func(*twin, R)
	// asks returns the sessions of a result whose requests the user may be asked, while waits says that the call waits for
	// them; nil: none.
	asks  func(R) []sessions.Session
	waits func(*A) bool
}

func define[A, R any](d about, b binding[A, R]) tool {
	t := tool{name: d.name, title: d.title, description: d.description, readOnly: d.readOnly, destructive: d.destructive,
		changes: d.name == "session_create" || d.name == "session_close",
		input:   inputSchema[A](), output: shallowSchema[R](), result: func() *schema {
			whole := resultSchema[R]()
			if b.asks != nil {
				whole.Members = append(whole.Members, member{"elicitation", resultSchema[elicitation]()})
			}
			return whole
		}}
	t.call = func(ctx context.Context, s *Server, raw json.RawMessage, m callMeta) *mcp.CallToolResult {
		args, err := t.input.arguments(t.name, raw)
		if err != nil {
			return failure(err)
		}
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return failure(sessions.Errorf(sessions.CodeInvalidParams, "the arguments of %s cannot be read: %w", t.name, err).
				Do("call %s again with arguments as its schema describes them", t.name).With("tool", t.name))
		}
		key := ""
		if b.key != nil {
			if k := b.key(&a); *k == "" {
				*k = m.key()
			}
			key = *b.key(&a)
		}
		limit := slice
		if b.wait != nil {
			limit = boundWait(b.wait(&a))
		}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlice)
		defer cancel()
		stop := progress(ctx, m.progressToken, t.name)
		defer stop()
		return b.run(ctx, s, &t, a, m, key, limit)
	}
	return t
}

// run makes the call. While it waits and an agent asks, the user is asked where the host can do that; once there is an
// answer the call is made again, which is safe under its key, for the time that is left.
func (b *binding[A, R]) run(ctx context.Context, s *Server, t *tool, a A, m callMeta, key string, limit time.Duration) *mcp.CallToolResult {
	asked := s.resume(ctx, &m)
	for {
		r, err := b.call(s.api, ctx, s.caller(ctx), a)
		if err != nil {
			return failure(t.explain(ctx, err, key, limit))
		}
		if asked != nil || b.asks != nil && slices.ContainsFunc(b.asks(r), func(v sessions.Session) bool { return len(v.Requests) > 0 }) {
			onlyNow(sessions.LastingOf(ctx))
		}
		if b.asks != nil && b.waits(&a) {
			if inRounds(ctx) {
				if round := s.round(ctx, b.asks(r), m, key); round != nil {
					return round
				}
			} else if e := s.ask(ctx, b.asks(r)); e != nil {
				if asked = e; e.State == dialogAnswered && shorten(ctx, b.wait(&a)) {
					continue
				}
			}
		}
		if t.changes {
			s.peers.listChanged(ctx)
		}
		var w twin
		if asked != nil {
			w.line("request %s: %s", asked.RequestID, asked.Note)
		}
		b.text(&w, r)
		return withElicitation(success(r, w.String()), asked)
	}
}

// shorten gives a call that is made again the time that is left; false when there is none.
func shorten(ctx context.Context, wait **int) bool {
	end, ok := ctx.Deadline()
	left := int((time.Until(end) - waitMargin) / time.Second)
	if !ok || left < 1 {
		return false
	}
	*wait = new(left)
	return true
}

// boundWait returns the time of a call that waits, and shortens a wait that would leave no time to answer in.
func boundWait(wait **int) time.Duration {
	if *wait == nil {
		return slice
	}
	w := time.Duration(**wait) * time.Second
	if w > longestWait-waitMargin {
		w = longestWait - waitMargin
		*wait = new(int(w / time.Second))
	}
	return max(slice, min(w+(slice-sessions.DefaultWaitSeconds*time.Second), longestWait))
}

// explain says what a call that ended early leaves behind: the work it may have started goes on, and the key under
// which it can be repeated.
func (t *tool) explain(ctx context.Context, err error, key string, limit time.Duration) error {
	e := new(*sessions.AsError(err)) // the host may share its error
	again := fmt.Sprintf("call %s again", t.name)
	if key != "" {
		again += fmt.Sprintf(" with the same arguments and %s %q: nothing is done twice", t.keyName(), key)
		e = e.With(t.keyName(), key)
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx))
	switch {
	case ctx.Err() == nil || !ended && e.Code != sessions.CodeInternal:
		if e.Code == sessions.CodeInternal && e.Action == "" {
			e = e.Do("%s", again)
		}
		return e
	case context.Cause(ctx) == errSlice:
		e.Code, e.Message = sessions.CodeTimeout, fmt.Sprintf("%s did not finish within %s; what it started goes on", t.name, limit)
	default:
		e.Code, e.Message = sessions.CodeIncomplete, fmt.Sprintf("the connection ended before %s did; what it started goes on", t.name)
	}
	return e.Do("%s", again)
}

func (t *tool) keyName() string {
	if t.input.member("key") == nil {
		return "command_id"
	}
	return "key"
}

// describe is the tool as mcp-go lists it. All four hints are set: clients take a missing one for true.
// openWorldHint is false, since the sessions of this machine are all that a tool acts on. Codex (0.155) refuses a tool
// that says otherwise, or that it is destructive, where its user is never asked.
func (t *tool) describe() (mcp.Tool, error) {
	in, err := json.Marshal(t.input)
	if err != nil {
		return mcp.Tool{}, err
	}
	out, err := json.Marshal(t.output)
	if err != nil {
		return mcp.Tool{}, err
	}
	return mcp.Tool{Name: t.name, Description: t.description, RawInputSchema: in, RawOutputSchema: out,
		Annotations: mcp.ToolAnnotation{Title: t.title, ReadOnlyHint: new(t.readOnly), DestructiveHint: new(t.destructive),
			IdempotentHint: new(true), OpenWorldHint: new(false)}}, nil
}

// handle is the tool as mcp-go calls it. What goes wrong is a result, see failure; only a call that cannot be told from
// another is refused.
func (s *Server) handle(t *tool) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (result *mcp.CallToolResult, _ error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Str("tool", t.name).Msg("tool panicked")
				result = failure(sessions.Errorf(sessions.CodeInternal, "%s met a fault of Baton and broke off", t.name).
					Do("look at the state with session_list before you repeat it; the log of the server says more"))
			}
		}()
		raw := r.Params.RawArguments
		if raw == nil && r.Params.Arguments != nil {
			var err error
			if raw, err = json.Marshal(r.Params.Arguments); err != nil {
				return failure(sessions.Errorf(sessions.CodeInvalidParams, "the arguments of %s cannot be read: %w", t.name, err)), nil
			}
		}
		m, err := s.meta(ctx)
		if err != nil {
			return nil, refuse(ctx, mcp.INVALID_PARAMS, nil, err)
		}
		return t.call(ctx, s, raw, m), nil
	}
}
