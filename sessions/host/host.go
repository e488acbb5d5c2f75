package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/host/remote"
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
	// Committed is told of the sessions that each commit of the journal changed, when it is durable and before anybody who
	// waits for it is woken. It must not block. nil: nobody is told.
	Committed func(sessions []string)
	// Serving is called by Serve once calls are answered. nil: nobody is told.
	Serving func()
}

// Host is the daemon behind the API. It implements sessions.API.
type Host struct {
	o     Options
	j     *journal.Journal
	disk  *storage
	epoch int64
	hub   *hub
	can   sandbox.Capability

	limits limits // usually

	// Other things in tests alone.
	ask        func(context.Context, bridge.Spec) (sessions.Probe, error)               // probe
	askForeign func(context.Context, bridge.ForeignInput) (sessions.ForeignSaid, error) // foreign
	run        func(*tender)                                                            // (*tender).run

	life context.Context // ends when the host stops; sessions go on
	end  context.CancelFunc
	wg   sync.WaitGroup

	calls   atomic.Int64   // open calls
	changes remote.Changes // commits that change a session
	deleted chan struct{}  // wakes the janitor; holds one

	mu        sync.Mutex
	stopping  bool
	tenders   map[string]*tender       // by session
	launches  map[string]launch        // by generation: what may not be journalled, until the bridge has it
	probes    map[string]probed        // by runner
	asking    map[string]chan struct{} // by runner: held by who asks it
	doubts    map[doubt]bool
	busySince time.Time // the last moment with a live session or a call
}

var (
	_ sessions.API        = (*Host)(nil)
	_ sessions.ForeignAPI = (*Host)(nil)
)

// New opens the journal and adopts or settles what an earlier host left. The caller holds the lock of the state
// directory.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.MaxSessions == 0 {
		o.MaxSessions = 100
	}
	h := &Host{o: o, limits: usually, hub: newHub(), deleted: make(chan struct{}, 1), tenders: map[string]*tender{}, launches: map[string]launch{}, probes: map[string]probed{}, asking: map[string]chan struct{}{}, doubts: map[doubt]bool{}, busySince: time.Now()}
	h.ask, h.askForeign, h.run = h.probe, h.foreignQuestion, (*tender).run
	h.life, h.end = context.WithCancel(context.WithoutCancel(ctx)) // the host's own life, not the starter's
	h.can = sandbox.Probe(ctx).Forced(o.Rung)
	j, err := openJournal(ctx, o.Places, journal.Options{
		Changing:  h.changes.Begin,
		Committed: o.Committed,
		Impossible: func(session string, e *sessions.ImpossibleError) {
			o.Log.Error().Str("session", session).Err(e).Msg("impossible transition refused")
		},
		Migrating: func(from, to string) {
			o.Log.Info().Str("from", from).Str("to", to).Msg("the journal is brought to a newer schema; a long history takes its time")
		},
	})
	if err != nil {
		h.end()
		return nil, err
	}
	h.j = j
	if h.disk, err = newStorage(j, o.Places, o.Log, h.mended); err != nil {
		h.end()
		return nil, errors.Join(err, j.Close())
	}
	h.spawn(func() { h.disk.run(h.life) })
	if err := h.countEpoch(ctx); err != nil {
		h.Stop()
		return nil, err
	}
	if err := h.recover(ctx); err != nil {
		h.Stop()
		return nil, err
	}
	h.forgetAnswers()
	h.spawn(h.tidy)
	h.spawn(h.sweep)
	if limit := time.Duration(o.Config.Host.IdleClose); limit > 0 {
		h.spawn(func() { h.retire(limit) })
	}
	return h, nil
}

// config reads the configuration as it is now: a runner that was added is there at once.
func (h *Host) config() (*config.Config, error) { return config.Load(h.o.Places.Config) }

// epochName is the consumer whose cursor counts the hosts of this journal; a bridge fences an older one.
const epochName = "host/epoch"

// countEpoch makes this host the next of its journal. On a disk that takes no changes it is so in memory until one is
// taken: what reads still reads, and sessions can be stopped.
func (h *Host) countEpoch(ctx context.Context) error {
	was := int64(0)
	err := h.j.View(ctx, func(tx *journal.Tx) (err error) {
		was, err = tx.Cursor(epochName)
		return err
	})
	if trouble(err) {
		h.o.Log.Error().Err(err).Msg("the hosts of this journal cannot be counted")
	}
	if h.epoch, err = nextEpoch(was, err); err != nil {
		return err
	}
	err = h.update(ctx, h.keepEpoch)
	if trouble(err) {
		h.o.Log.Error().Err(err).Msg("the host starts with a journal that takes no changes")
		return nil
	}
	return err
}

// nextEpoch is the epoch after one that was read. Where that is damaged it is the time, which is later than any count and than
// that of the host before.
func nextEpoch(was int64, err error) (int64, error) {
	if trouble(err) {
		return time.Now().Unix(), nil
	}
	return was + 1, err
}

func (h *Host) keepEpoch(tx *journal.Tx, _ *changes) error { return tx.SetCursor(epochName, h.epoch) }

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
func (h *Host) Live() int { return len(h.liveIDs()) }

// spawn runs f as a part of the host, unless it is stopping.
func (h *Host) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return false
	}
	h.wg.Go(f)
	return true
}

// update runs fn as one transaction and then wakes the waiters of the sessions it touched. After a fault of the disk that
// is over at once fn runs again, although the first run may have been recorded: every fn finds that and leaves it so.
func (h *Host) update(ctx context.Context, fn func(tx *journal.Tx, c *changes) error) error {
	err := h.commit(ctx, fn)
	if !trouble(err) || h.disk.mend(ctx, h.life, err) != nil {
		return err
	}
	if again := h.commit(ctx, fn); !trouble(again) {
		return again
	}
	return err // the first says more: whether something may be recorded
}

func (h *Host) commit(ctx context.Context, fn func(tx *journal.Tx, c *changes) error) error {
	if err := h.disk.present(); err != nil {
		return err
	}
	c := &changes{}
	failpoint.Hit("host.commit.before")
	err := left(ctx, h.j.Update(ctx, func(tx *journal.Tx) error {
		*c = changes{} // a group may run it again
		if err := fn(tx, c); err != nil {
			return err
		}
		h.tell(tx, c)
		return nil
	}))
	if err != nil {
		return err
	}
	failpoint.Hit("host.commit.after")
	for id, notable := range c.sessions {
		h.hub.notify(id, notable, c.told[id])
	}
	if len(c.told) > 0 {
		runtime.Gosched() // who was told goes first: its caller waits, and nobody does for what follows here
	}
	for _, in := range c.hand {
		h.hand(in)
	}
	for _, id := range c.kick {
		h.kick(id)
	}
	return nil
}

// mended goes on where a journal that took no changes left things: what it recorded without saying so has no tender yet,
// and inputs may be there that nobody was told of.
func (h *Host) mended() {
	if err := h.commit(h.life, h.keepEpoch); err != nil {
		h.o.Log.Warn().Err(err).Msg("the host's epoch could not be counted")
	}
	if err := h.settleDoubts(); err != nil {
		h.o.Log.Warn().Err(err).Msg("commands in doubt could not be settled")
	}
	var live []journal.Generation
	if err := h.j.View(h.life, func(tx *journal.Tx) (err error) {
		live, _, err = tx.LiveGenerations()
		return err
	}); err != nil {
		h.o.Log.Warn().Err(err).Msg("live sessions could not be looked at")
	}
	for _, g := range live {
		if len(g.Record) == 0 {
			h.tend(g.Session, g.ID, nil, journal.Generation{})
		}
		h.kick(g.Session)
	}
	h.hub.wakeAll()
}

// changes is what a transaction did, for those who are told after its commit.
type changes struct {
	sessions map[string]bool // notable or not
	kick     []string        // sessions whose tender has new inputs
	hand     []handed        // new inputs that their tenders need not look up

	evs  map[string][]sessions.Event // what was appended, by session
	told map[string]*told            // for those who wait for the end of a command, by session
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
		c.touch(session, worthAWait(e.Kind, e.Command))
	}
	if c.evs == nil {
		c.evs = map[string][]sessions.Event{}
	}
	if c.evs[session] == nil {
		c.evs[session] = evs // which is nobody else's: a stream is not copied
	} else {
		c.evs[session] = append(slices.Clip(c.evs[session]), evs...)
	}
	return nil
}

// notableKinds are those that a wait for "settled or input" looks at.
var notableKinds = []sessions.EventKind{sessions.EventCommandSettled, sessions.EventApprovalRequested, sessions.EventQuestionRequested,
	sessions.EventSessionStarted, sessions.EventSessionClosed, sessions.EventSessionFailed}

func notable(k sessions.EventKind) bool { return slices.Contains(notableKinds, k) }

// kick tells the tender of a session that the journal has inputs to give.
func (h *Host) kick(session string) {
	h.mu.Lock()
	t := h.tenders[session]
	if t != nil {
		t.look = true
	}
	h.mu.Unlock()
	t.wake()
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
func clip(text string, max int) string { return cut(text, max, "session_read gives the rest") }

// cut cuts a text to a number of characters, and says how much of it is there and how to get the rest.
func cut(text string, max int, rest string) string {
	n := 0
	for i := range text {
		if n == max {
			return text[:i] + fmt.Sprintf("\n[cut: %d of %d bytes; %s]", i, len(text), rest)
		}
		n++
	}
	return text
}
