package mcpserver

import (
	"context"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// peers are the clients that are there. All of them speak for one principal.
type peers struct {
	mu  sync.Mutex
	all map[*session]bool
}

func (p *peers) add(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[*session]bool{}
	}
	p.all[s] = true
}

func (p *peers) remove(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, s)
}

// listChanged tells every client that there are other sessions than before.
func (p *peers) listChanged(ctx context.Context) {
	ctx = withStream(ctx, nil) // it belongs to no request

	p.mu.Lock()
	tell := make([]*session, 0, len(p.all))
	for s := range p.all {
		tell = append(tell, s)
	}
	p.mu.Unlock()
	for _, s := range tell {
		s.listChanged(ctx)
	}
}

// listens are the subscriptions/listen requests of a client that are open.
type listens struct {
	mu   sync.Mutex
	open map[*listening]bool
	seen bool // the client has listed the resources
}

func (x *listens) add(l *listening) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == nil {
		x.open = map[*listening]bool{}
	}
	x.open[l] = true
}

func (x *listens) remove(l *listening) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, l)
}

// sawResources notes that the client knows a list that can change.
func (s *session) sawResources() {
	s.listens.mu.Lock()
	defer s.listens.mu.Unlock()
	s.listens.seen = true
}

// listChanged tells the client that there are other sessions than before, where it knows a list and wants to hear it.
func (s *session) listChanged(ctx context.Context) {
	s.listens.mu.Lock()
	var tell []*listening
	for l := range s.listens.open {
		if f, _ := l.SubscriptionFilter(); f.ResourcesListChanged {
			tell = append(tell, l)
		}
	}
	plain := s.listens.seen && s.Initialized()
	s.listens.mu.Unlock()
	for _, l := range tell {
		l.notify(ctx, mcp.MethodNotificationResourcesListChanged, "")
	}
	if plain {
		_ = s.Notify(ctx, mcp.MethodNotificationResourcesListChanged, nil)
	}
}
