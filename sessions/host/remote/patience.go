package remote

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// patient bounds a call about the host itself, which is answered at once: who makes it may do so because a host that
// stands still answers nothing else.
func (c *Client) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.o.Patience,
		sessions.Errorf(sessions.CodeTimeout, "the host holds its socket %s, but has not answered within %v", c.o.Socket, c.o.Patience).
			Do("see whether its process, baton host run, stands still; continue or kill it: sessions go on, and the next call starts another"))
}

// attended is the context of a call that may take as long as it likes while the host answers others: when it takes long,
// the host is asked for its state now and then, and one that stands still ends the call. The function that it returns ends
// the watch.
func (c *Client) attended(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	over := make(chan struct{})
	look := time.AfterFunc(c.look, func() {
		defer close(over)
		for ctx.Err() == nil {
			// Any other failure is for the call itself to meet.
			if _, err := c.Status(ctx); sessions.CodeOf(err) == sessions.CodeTimeout {
				end(err)
				return
			}
			t := time.NewTimer(c.look)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
		}
	})
	return ctx, func() {
		end(nil)
		if !look.Stop() {
			<-over
		}
	}
}
