package remote

import (
	"context"
	"errors"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

const (
	// lookEvery is how long a call goes on before the host is asked for its state, and again after each answer.
	lookEvery = 8 * time.Second
	// lookPatience is how long the host may take for that answer, which waits for nothing. With lookEvery it is less than
	// the time in which an MCP tool answers, so that every front end can say what is wrong.
	lookPatience = 8 * time.Second
)

var (
	// errNoAnswer is the cause of the end of a call about the host itself that was not answered in time.
	errNoAnswer = errors.New("no answer in time")
	// errStands is wrapped by the error of a call to a host that answers nothing.
	errStands = errors.New("the host does not answer")
)

// ask makes a call about the host itself, which is answered at once: who makes it may do so because a host that stands
// still answers nothing else.
func (c *Client) ask(ctx context.Context, method, verb string, within time.Duration, into any) error {
	limited, cancel := context.WithTimeoutCause(ctx, within, errNoAnswer)
	defer cancel()
	err := c.once(limited, c.transport, method, verb, nil, into)
	if errors.Is(err, errNoAnswer) {
		return c.stands(ctx, within)
	}
	return final(verb, err)
}

// stands is the error of a call to a host that has answered nothing for so long.
func (c *Client) stands(ctx context.Context, silent time.Duration) error {
	pid := c.listener(ctx)
	if pid == 0 {
		return sessions.Errorf(sessions.CodeTimeout, "%w: its socket %s is held, and nothing was answered for %v", errStands, c.o.Socket, silent).
			Do("see whether its process, baton host run, stands still; continue or kill it: sessions go on, and the next call starts another")
	}
	return sessions.Errorf(sessions.CodeTimeout, "%w: process %d holds its socket %s, and has answered nothing for %v", errStands, pid, c.o.Socket, silent).
		Do("continue it, kill -CONT %d, or end it, kill -KILL %d: sessions go on, and the next call starts another host", pid, pid).With("host_pid", pid)
}

// listener is the process that the host's socket belongs to, 0 where that is not known. The kernel tells it, and lets
// connections in, also when the process stands still.
func (c *Client) listener(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return 0
	}
	defer conn.Close()
	return local.ListenerOf(conn)
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
			if _, err := c.Status(ctx); errors.Is(err, errStands) {
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
