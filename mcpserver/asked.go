package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
)

// errClientGone ends the requests to a client that can no longer answer.
var errClientGone = errors.New("the client is gone")

// asked are our own requests to the client that it has not answered yet.
type asked struct {
	mu      sync.Mutex
	last    uint64
	pending map[string]chan message // by id key
	closed  bool
}

func newAsked() *asked { return &asked{pending: map[string]chan message{}} }

func (a *asked) add() (id string, reply chan message, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return "", nil, errClientGone
	}
	a.last++
	id = "baton-" + strconv.FormatUint(a.last, 10)
	reply = make(chan message, 1)
	a.pending["s"+id] = reply
	return id, reply, nil
}

func (a *asked) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, "s"+id)
}

// resolve hands a response to who asked; false when nobody waits for it.
func (a *asked) resolve(m message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply, ok := a.pending[idKey(m.id)]
	if ok {
		delete(a.pending, idKey(m.id))
		reply <- m
	}
	return ok
}

// close ends every open request: no answer can come any more.
func (a *asked) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for key, reply := range a.pending {
		close(reply)
		delete(a.pending, key)
	}
}

// ask sends a request to the client and waits for its answer. When the context ends first, the client is told that the
// answer is no longer wanted.
func (c *conn) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id, reply, err := c.asked.add()
	if err != nil {
		return nil, err
	}
	defer c.asked.remove(id)
	line, err := outgoing(id, method, params)
	if err != nil {
		return nil, err
	}
	if err := c.out.send(ctx, line); err != nil {
		return nil, err
	}
	select {
	case m, ok := <-reply:
		switch {
		case !ok:
			return nil, errClientGone
		case m.err != nil:
			return nil, m.err
		}
		return m.result, nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		_ = c.notify(c.ctx, "notifications/cancelled", map[string]any{"requestId": id, "reason": cause.Error()})
		return nil, cause
	}
}
