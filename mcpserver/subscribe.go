package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/batonmcp/baton/sessions"
)

const (
	// maxSubscriptions bounds what one client follows at a time.
	maxSubscriptions = 50
	// updateEvery merges the updates of one resource: a streaming session changes many times a second.
	updateEvery = 500 * time.Millisecond
	// awayEvery is how often a host is looked for that does not run.
	awayEvery = 5 * time.Second
)

// subscriptions are the resources that a client follows: by resources/subscribe, or by one subscriptions/listen stream
// (2026-07-28), whose messages carry its id.
type subscriptions struct {
	conn  *conn
	tag   json.RawMessage // the id of the stream; nil: none
	ready chan struct{}   // closed when the stream may carry messages; nil: at once

	mu   sync.Mutex
	ends map[string]context.CancelFunc // by URI
}

// SubscribeToResource follows a resource; one that is not there is left out.
func (x *subscriptions) SubscribeToResource(uri string) { _ = x.SubscribeToResourceErr(uri) }

// SubscribeToResourceErr follows a resource from its present state on.
func (x *subscriptions) SubscribeToResourceErr(uri string) error {
	s := x.conn.server
	if s.api == nil {
		return server.ErrResourceNotFound
	}
	ctx := s.mcp.WithContext(x.conn.ctx, x.conn.session)
	var follow func(context.Context)
	switch {
	case slices.Contains(s.fixed, uri):
		follow = func(ctx context.Context) { <-ctx.Done() }
	case uri == sessionsURI:
		limited, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
		defer cancel()
		now, err := s.api.Changed(limited, s.caller(ctx), sessions.ChangedArgs{WaitSeconds: new(0)})
		if err != nil {
			return err
		}
		follow = func(ctx context.Context) { x.followList(ctx, now.Mark) }
	default:
		id, _, _, err := parseResource(uri)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
		defer cancel()
		now, err := s.session(limited, id)
		if err != nil {
			return err
		}
		follow = func(ctx context.Context) { x.followSession(ctx, uri, id, now) }
	}
	ctx, end := context.WithCancel(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.ends[uri] != nil: // once is enough
		end()
		return nil
	case len(x.ends) >= maxSubscriptions:
		end()
		return sessions.Errorf(sessions.CodeLimitExceeded, "%d resources are followed, the limit", maxSubscriptions).Do("unsubscribe from one, or follow %s", sessionsURI)
	}
	if x.ends == nil {
		x.ends = map[string]context.CancelFunc{}
	}
	x.ends[uri] = end
	if !x.conn.calls.spawn(func() { follow(ctx) }) {
		end()
	}
	return nil
}

// UnsubscribeFromResource ends one subscription.
func (x *subscriptions) UnsubscribeFromResource(uri string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end := x.ends[uri]; end != nil {
		end()
		delete(x.ends, uri)
	}
}

// SubscribedResources lists what is followed.
func (x *subscriptions) SubscribedResources() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.ends))
}

// IsSubscribedToResource tells whether a resource is followed.
func (x *subscriptions) IsSubscribedToResource(uri string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ends[uri] != nil
}

// followSession tells the client whenever a session has new events. The host of one that lives is started again when it is
// lost: without a host its agent would go on for a while alone.
func (x *subscriptions) followSession(ctx context.Context, uri, id string, now sessions.Session) {
	s := x.conn.server
	cursor, live := now.Cursor, now.State.Live()
	for whole := ctx; whole.Err() == nil; {
		ctx := whole
		if !live {
			ctx = sessions.Passive(ctx)
		}
		a := sessions.WaitArgs{SessionIDs: []string{id}, Until: "event", WaitSeconds: new(sessions.MaxWaitSeconds)}
		if cursor != "" {
			a.After = map[string]string{id: cursor}
		}
		r, err := s.api.Wait(ctx, s.caller(ctx), a)
		if sessions.CodeOf(err) == sessions.CodeNotFound { // it was deleted
			x.notify(ctx, mcp.MethodNotificationResourceUpdated, uri)
			return
		}
		changed := false
		for _, w := range r.Sessions {
			changed = changed || w.Cursor != cursor
			cursor, live = w.Cursor, w.Session.State.Live()
		}
		if changed {
			x.notify(ctx, mcp.MethodNotificationResourceUpdated, uri)
		}
		switch {
		case err != nil:
			pause(ctx, awayEvery)
		case changed || len(r.Sessions) > 0:
			pause(ctx, updateEvery)
		}
	}
}

// followList tells the client whenever the list of sessions is another one. It starts no host, and lets an idle one go:
// where none runs nothing changes.
func (x *subscriptions) followList(ctx context.Context, mark string) {
	s := x.conn.server
	ctx = sessions.Passive(ctx)
	for ctx.Err() == nil {
		now, err := s.api.Changed(ctx, s.caller(ctx), sessions.ChangedArgs{Mark: mark, WaitSeconds: new(sessions.MaxWaitSeconds)})
		switch {
		case err != nil:
			pause(ctx, awayEvery)
		case now.Mark != mark:
			mark = now.Mark
			x.notify(ctx, mcp.MethodNotificationResourceUpdated, sessionsURI)
			pause(ctx, updateEvery)
		}
	}
}

// notify writes a notification, on the stream where there is one.
func (x *subscriptions) notify(ctx context.Context, method, uri string) {
	if x.ready != nil {
		select {
		case <-x.ready:
		case <-ctx.Done():
			return
		}
	}
	params := ordered{}
	if x.tag != nil {
		params = append(params, pair{"_meta", ordered{{mcp.MetaKeySubscriptionID, x.tag}}})
	}
	if uri != "" {
		params = append(params, pair{"uri", uri})
	}
	_ = x.conn.notify(ctx, method, params)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// listening is the session of one subscriptions/listen request (2026-07-28). mcp-go sends its acknowledgement through the
// channel of the session, and it has to be the first message of that stream.
type listening struct {
	*session
	subscriptions
	notes chan mcp.JSONRPCNotification

	filterMu sync.Mutex
	filter   mcp.SubscriptionFilter
}

var (
	_ server.SessionWithResourceSubscriptionsErr = (*session)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*listening)(nil)
	_ server.SessionWithSubscriptionFilter       = (*listening)(nil)
)

// NotificationChannel takes the acknowledgement.
func (l *listening) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.notes }

// SubscribeToResource follows a resource on this stream.
func (l *listening) SubscribeToResource(uri string) { l.subscriptions.SubscribeToResource(uri) }

// SubscribeToResourceErr follows a resource on this stream.
func (l *listening) SubscribeToResourceErr(uri string) error {
	return l.subscriptions.SubscribeToResourceErr(uri)
}

// UnsubscribeFromResource ends a subscription of this stream.
func (l *listening) UnsubscribeFromResource(uri string) { l.subscriptions.UnsubscribeFromResource(uri) }

// SubscribedResources lists what this stream follows.
func (l *listening) SubscribedResources() []string { return l.subscriptions.SubscribedResources() }

// IsSubscribedToResource tells whether this stream follows a resource.
func (l *listening) IsSubscribedToResource(uri string) bool {
	return l.subscriptions.IsSubscribedToResource(uri)
}

// SetSubscriptionFilter records what the stream is for.
func (l *listening) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	l.filterMu.Lock()
	defer l.filterMu.Unlock()
	l.filter = f
}

// SubscriptionFilter tells what the stream is for.
func (l *listening) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	l.filterMu.Lock()
	defer l.filterMu.Unlock()
	return l.filter, !l.filter.IsEmpty()
}

// listen serves one subscriptions/listen request: what mcp-go says goes out at once, under the client's own id.
func (c *conn) listen(ctx context.Context, id json.RawMessage, restore func([]byte) []byte, serve func(server.ClientSession) answer) answer {
	l := &listening{session: c.session, notes: make(chan mcp.JSONRPCNotification, 8),
		subscriptions: subscriptions{conn: c, tag: id, ready: make(chan struct{})}}
	ended, pumped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(pumped)
		open := true
		put := func(n mcp.JSONRPCNotification) {
			if b, err := json.Marshal(n); err == nil {
				_ = c.out.send(ctx, restore(b))
			}
			if open {
				close(l.ready)
				open = false
			}
		}
		for {
			select {
			case n := <-l.notes:
				put(n)
			case <-ended:
				for {
					select {
					case n := <-l.notes:
						put(n)
					default:
						return
					}
				}
			}
		}
	}()
	c.session.listens.add(l)
	defer c.session.listens.remove(l)
	a := serve(l)
	close(ended)
	<-pumped
	a.line = restore(a.line)
	return a
}
