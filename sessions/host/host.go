package host

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

const (
	protocolACP       = "acp"
	protocolAppServer = "app-server"
)

// Options is what a host is made of.
type Options struct {
	Places  place.Places
	Config  *config.Config // as it was at the start; runners are looked up in the file as it is then
	Version string
	Log     zerolog.Logger
	// Rung forces a containment rung; "" takes the best that the machine allows.
	Rung sandbox.Rung
	// MaxSessions caps the live sessions. 0: 100.
	MaxSessions int
}

// Host is the daemon behind the API. It implements sessions.API.
type Host struct {
	o     Options
	j     *journal.Journal
	epoch int64
	hub   *hub
	can   sandbox.Capability

	life context.Context // ends when the host stops; sessions go on
	end  context.CancelFunc
	wg   sync.WaitGroup

	calls   atomic.Int64  // open calls
	deleted chan struct{} // wakes the janitor; holds one

	mu        sync.Mutex
	stopping  bool
	tenders   map[string]*tender // by session
	launches  map[string]launch  // by generation: what may not be journalled, until the bridge has it
	probes    map[string]probed  // by runner
	busySince time.Time          // the last moment with a live session or a call
}

var _ sessions.API = (*Host)(nil)

// New opens the journal and adopts or settles what an earlier host left. The caller holds the lock of the state
// directory.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.MaxSessions == 0 {
		o.MaxSessions = 100
	}
	h := &Host{o: o, hub: newHub(), deleted: make(chan struct{}, 1), tenders: map[string]*tender{}, launches: map[string]launch{}, probes: map[string]probed{}, busySince: time.Now()}
	h.life, h.end = context.WithCancel(context.WithoutCancel(ctx)) // the host's own life, not the starter's
	h.can = sandbox.Probe(ctx)
	if o.Rung != "" {
		h.can.Rung = o.Rung
		h.can.MountNamespace = h.can.MountNamespace && o.Rung == sandbox.PIDNamespace
	}
	j, err := journal.Open(ctx, o.Places.Journal(), journal.Options{
		Impossible: func(session string, e *sessions.ImpossibleError) {
			o.Log.Error().Str("session", session).Err(e).Msg("impossible transition refused")
		},
	})
	if err != nil {
		h.end()
		return nil, err
	}
	h.j = j
	if err := j.Update(ctx, func(tx *journal.Tx) error {
		was, err := tx.Cursor(epochName)
		if err != nil {
			return err
		}
		h.epoch = was + 1
		return tx.SetCursor(epochName, h.epoch)
	}); err != nil {
		h.end()
		j.Close()
		return nil, err
	}
	if err := h.recover(ctx); err != nil {
		h.Stop()
		return nil, err
	}
	h.spawn(h.tidy)
	return h, nil
}

// config reads the configuration as it is now: a runner that was added is there at once.
func (h *Host) config() (*config.Config, error) { return config.Load(h.o.Places.Config) }

// epochName is the consumer whose cursor counts the hosts of this journal; a bridge fences an older one.
const epochName = "host/epoch"

// masks are Baton's own directories, which no agent may see.
func (h *Host) masks() []string { return h.o.Places.Private() }

// Stop ends the host and leaves the sessions running.
func (h *Host) Stop() {
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
	h.end()
	h.wg.Wait()
	if err := h.j.Close(); err != nil {
		h.o.Log.Error().Err(err).Msg("journal did not close cleanly")
	}
}

// Live tells how many sessions have a bridge or are about to.
func (h *Host) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tenders)
}

// go runs f as a part of the host, unless it is stopping.
func (h *Host) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return false
	}
	h.wg.Go(f)
	return true
}

// update runs fn as one transaction and then wakes the waiters of the sessions it touched.
func (h *Host) update(ctx context.Context, fn func(tx *journal.Tx, c *changes) error) error {
	c := &changes{}
	failpoint.Hit("host.commit.before")
	err := h.j.Update(ctx, func(tx *journal.Tx) error {
		*c = changes{} // a group may run it again
		return fn(tx, c)
	})
	if err != nil {
		return err
	}
	failpoint.Hit("host.commit.after")
	for id, notable := range c.sessions {
		h.hub.notify(id, notable)
	}
	for _, id := range c.kick {
		h.kick(id)
	}
	return nil
}

// changes is what a transaction did, for those who are told after its commit.
type changes struct {
	sessions map[string]bool // notable or not
	kick     []string        // sessions whose tender has new inputs
}

func (c *changes) touch(session string, notable bool) {
	if c.sessions == nil {
		c.sessions = map[string]bool{}
	}
	c.sessions[session] = c.sessions[session] || notable
}

// events appends events to a session and notes the change.
func (c *changes) events(tx *journal.Tx, session string, evs ...sessions.Event) error {
	if len(evs) == 0 {
		return nil
	}
	if _, err := tx.AppendEvents(session, evs); err != nil {
		return err
	}
	for _, e := range evs {
		c.touch(session, notable(e.Kind))
	}
	return nil
}

// notable kinds are those that a wait for "settled or input" looks at.
var notableKinds = []sessions.EventKind{sessions.EventCommandSettled, sessions.EventApprovalRequested, sessions.EventQuestionRequested,
	sessions.EventSessionStarted, sessions.EventSessionClosed, sessions.EventSessionFailed}

func notable(k sessions.EventKind) bool {
	for _, n := range notableKinds {
		if n == k {
			return true
		}
	}
	return false
}

// kick tells the tender of a session that there are inputs to give.
func (h *Host) kick(session string) {
	h.mu.Lock()
	t := h.tenders[session]
	h.mu.Unlock()
	if t != nil {
		select {
		case t.kicked <- struct{}{}:
		default:
		}
	}
}

// removeQuietly takes a file away that nobody needs any more.
func (h *Host) removeQuietly(path string) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		h.o.Log.Warn().Err(err).Msg("left behind")
	}
}

func seconds(n *int, byDefault int) (time.Duration, error) {
	if n == nil {
		return time.Duration(byDefault) * time.Second, nil
	}
	if *n < 0 || *n > sessions.MaxWaitSeconds {
		return 0, sessions.Errorf(sessions.CodeInvalidParams, "wait_seconds is %d", *n).
			Do("use 0 to %d, and call session_wait again for more", sessions.MaxWaitSeconds)
	}
	return time.Duration(*n) * time.Second, nil
}

func budget(n int) (int, error) {
	switch {
	case n == 0:
		return sessions.DefaultMaxChars, nil
	case n < 0 || n > sessions.MaxChars:
		return 0, sessions.Errorf(sessions.CodeInvalidParams, "max_chars is %d", n).Do("use 1 to %d", sessions.MaxChars)
	}
	return n, nil
}

// clip cuts a text to a budget of characters and says so.
func clip(text string, max int) string {
	n := 0
	for i := range text {
		if n == max {
			return text[:i] + fmt.Sprintf("\n[cut: %d of %d bytes; session_read gives the rest]", i, len(text))
		}
		n++
	}
	return text
}
