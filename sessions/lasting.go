package sessions

import (
	"context"
	"sync"
)

// Lasting takes, through the context of a call that only reads, how long its answer stays true. It is safe for concurrent
// use.
type Lasting struct {
	mu    sync.Mutex
	still func() bool
}

type lastingKey struct{}

// WithLasting is a context whose call says how long its answer stays true, where the API knows.
func WithLasting(ctx context.Context) (context.Context, *Lasting) {
	l := new(Lasting)
	return context.WithValue(ctx, lastingKey{}, l), l
}

// LastingOf is what WithLasting put into a context, nil where nothing is there.
func LastingOf(ctx context.Context) *Lasting {
	l, _ := ctx.Value(lastingKey{}).(*Lasting)
	return l
}

// Set notes what tells whether the same call would be answered the same now. nil: nothing does. What it tells must hold
// for every change that anybody was told of, or could see, before it was asked; false is always true enough.
func (l *Lasting) Set(still func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.still = still
}

// Still is what was noted last.
func (l *Lasting) Still() func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.still
}
