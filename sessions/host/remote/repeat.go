package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// again changes the arguments of a call that is made once more, so long after its first attempt.
type again[A any] func(a *A, spent time.Duration)

// invoke makes a call until some host has answered. key is what a mutating call is known by, "" for one that changes
// nothing.
func invoke[R, A any](ctx context.Context, c *Client, verb, key string, who sessions.Caller, a A, change again[A]) (R, error) {
	var result R
	if looks(verb) && c.o.Fresh != nil && c.o.Fresh() {
		if verb == verbList || verb == verbListAll {
			return result, own.Unmarshal([]byte(`{"sessions":[]}`), &result)
		}
		return result, sessions.Errorf(sessions.CodeNotFound, "there are no sessions yet, in this home of Baton's").Do("baton run makes the first one; BATON_HOME names another home")
	}
	ctx, end := c.attended(ctx)
	defer end()
	if !sessions.IsPassive(ctx) {
		c.upgrade(ctx)
	}
	began := time.Now()
	p := progress{verb: verb, key: key, seen: began}
	for {
		args := a
		if spent := time.Since(began); change != nil && p.tries > 0 {
			change(&args, spent)
		}
		body, err := encode(call[A]{who, args})
		if err != nil {
			return result, err
		}
		result = *new(R)
		failpoint.Hit("front.call.before")
		over := c.transport
		if p.tries == 0 {
			over = c.kept
		}
		err = c.once(ctx, over, http.MethodPost, verb, body, &result)
		failpoint.Hit("front.call.after")
		if err == nil {
			return result, nil
		}
		if err := c.next(ctx, &p, err); err != nil {
			return *new(R), err
		}
	}
}

// looks tells which calls change nothing, and start nothing but the host that answers them.
func looks(verb string) bool {
	return verb == verbList || verb == verbListAll || verb == verbRead || verb == verbWait || verb == verbChanged
}

// progress is what the attempts of one call have met.
type progress struct {
	verb, key string
	tries     int
	broken    int       // hosts that did not answer
	seen      time.Time // when a host was last met
}

// next decides what follows a failed attempt: nil, then it is made again, or the error to return.
func (c *Client) next(ctx context.Context, p *progress, err error) error {
	p.tries++
	var refused *refusedError
	var broken *brokenError
	var protocol *protocolError
	switch {
	case errors.As(err, &refused):
		return refused.answer
	case ctx.Err() != nil:
		return p.end(ended(ctx))
	case errors.As(err, &broken):
		p.broken++
		p.seen = time.Now()
		if p.broken >= maxBroken {
			return p.end(err)
		}
		c.log.Warn().Str("verb", p.verb).Int("attempt", p.tries).Err(broken.err).Msg("lost the host in a call; making it again")
	case errors.As(err, &protocol):
		// A newer front end replaces an older host, whose sessions go on; an older one can only say so.
		if protocol.protocol >= Protocol || c.o.Start == nil || sessions.IsPassive(ctx) || time.Since(p.seen) > c.o.Patience {
			return p.end(err)
		}
		c.log.Info().Int("protocol", protocol.protocol).Msg("asking an older host to make room")
		if _, err := c.Stop(ctx); err != nil && !errors.Is(err, ErrNoHost) {
			c.log.Warn().Err(err).Msg("the older host did not take the stop")
		}
	case errors.Is(err, ErrNoHost):
		if c.o.Start == nil || sessions.IsPassive(ctx) || time.Since(p.seen) > c.o.Patience {
			return p.end(err)
		}
		if err := c.o.Start(ctx); ctx.Err() != nil {
			return p.end(ended(ctx))
		} else if err != nil {
			return p.end(err)
		}
		if p.tries < 3 { // a host has just answered
			return nil
		}
	default:
		return p.end(err)
	}
	if pause(ctx, p.tries) != nil {
		return p.end(ended(ctx))
	}
	return nil
}

// end is the error of a call that is given up. Where a host took a mutating call and did not answer, whether it had an
// effect is not known, whatever was met after that; the same key finds out.
func (p *progress) end(err error) error {
	e := sessions.AsError(final(p.verb, err))
	if p.key == "" {
		return e
	}
	if p.broken > 0 {
		e = sessions.Errorf(sessions.CodeOutcomeUnknown, "%s was given to a host that did not answer, and then: %w", p.verb, e)
	} else if e.Code != sessions.CodeTimeout {
		return e
	}
	again := fmt.Sprintf("ask again with the same key %s: nothing is done twice", p.key)
	if errors.Is(err, errStands) {
		again = sessions.AsError(err).Action + "; then " + again
	}
	return e.Do("%s", again).With("key", p.key)
}
