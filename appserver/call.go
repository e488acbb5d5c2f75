package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// call is one open call of ours.
type call struct {
	method string
	then   func(result json.RawMessage, err error) // in the loop, once
	alarm  *alarm
}

// call sends a call from the loop. then gets its response, Codex's refusal (*refusal), a time-out or the end of the
// link (*sessions.Error). When sending fails then is never run.
func (a *Agent) call(ctx context.Context, method string, params any, then func(json.RawMessage, error)) error {
	return a.callWithin(ctx, a.o.RequestTimeout, method, params, then)
}

func (a *Agent) callWithin(ctx context.Context, limit time.Duration, method string, params any, then func(json.RawMessage, error)) error {
	id, err := a.conn.Call(ctx, method, params)
	if err != nil {
		return a.writeFailed(ctx, err)
	}
	c := &call{method: method, then: then}
	c.alarm = a.alarms.after(limit, func() {
		delete(a.calls, id)
		then(nil, sessions.Errorf(sessions.CodeTimeout, "Codex did not answer %s within %s", method, limit).
			Do("try again; if it stays like this, close and resume the session"))
	})
	a.calls[id] = c
	return nil
}

// writeFailed gives a failed write its place in the error table. It still wraps what says whether bytes have left.
func (a *Agent) writeFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // its caller gave up, the link is as it was
	}
	kind := sessions.ErrNotWritten
	if errors.Is(err, sessions.ErrBroken) {
		kind = sessions.ErrBroken
	}
	if why := a.conn.Err(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	code, action := wire.Lost(err)
	if code == sessions.CodeAgentExited {
		action = "resume the session"
	}
	return fmt.Errorf("%w: %w", kind, sessions.Errorf(code, "the link to Codex has ended: %w", err).Do("%s", action))
}

// answered takes a response. One that comes after its deadline has no taker any more.
func (a *Agent) answered(m wire.Message) {
	c := a.calls[m.Call]
	if c == nil {
		a.o.Logger.Debug().Str("method", m.Method).Msg("response after its deadline")
		return
	}
	delete(a.calls, m.Call)
	c.alarm.off()
	if m.Err != nil {
		c.then(nil, &refusal{method: m.Method, code: m.Err.Code, text: m.Err.Message, hide: a.o.Redact})
		return
	}
	c.then(m.Result, nil)
}

// ask makes a call from outside the loop and waits for its result. inLoop, when given, sees the result in the loop,
// before anything that Codex sent later.
func (a *Agent) ask(ctx context.Context, method string, params, result any, inLoop ...func()) error {
	answer := make(chan error, 1)
	var sent error
	err := a.do(ctx, func() {
		sent = a.call(ctx, method, params, func(raw json.RawMessage, err error) {
			if err == nil && result != nil {
				if bad := decode(raw, result); bad != nil {
					err = sessions.Errorf(sessions.CodeAgentProtocol, "Codex answered %s with something else: %s", method, unreadable(bad)).
						Do("check that the installed Codex is one that Baton knows")
				}
			}
			if err == nil {
				for _, fn := range inLoop {
					fn()
				}
			}
			answer <- err
		})
	})
	if err == nil {
		err = sent
	}
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
