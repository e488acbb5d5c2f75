package host

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions/host/remote"
)

const (
	// keepEvery is how often the paths of socket and lock are looked at.
	keepEvery = 5 * time.Second
	// endGrace is how long the end of a host waits for the answers of open calls.
	endGrace = 2 * time.Second
)

// Serve is the life of a host process: it takes the state directory's lock, adopts what lives, and answers on the
// socket until ctx ends, a caller asks it to stop, or it has been idle for the configured time. Where another process
// is the host already it returns nil at once. Sessions go on after it.
func Serve(ctx context.Context, o Options) (err error) {
	claim, err := remote.Take(o.Places)
	if errors.Is(err, local.ErrLocked) {
		o.Log.Info().Msg("another process is the host")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Release()) }()
	h, err := New(ctx, o)
	if err != nil {
		return err
	}
	defer h.Stop()
	ln, err := claim.Listen()
	if err != nil {
		return err
	}
	ln.Refused = func(err error) { o.Log.Warn().Err(err).Msg("connection refused") }
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	started := time.Now().UTC()
	status := func() remote.Status {
		return remote.Status{Version: o.Version, Protocol: remote.Protocol, PID: os.Getpid(), Epoch: h.epoch, Started: started, State: o.Places.State, Live: h.Live(), Owners: h.owners()}
	}
	handler := remote.Handler(h, remote.HandlerOptions{Status: status, Records: h, Read: h.ReadJSON, Foreign: h, Changes: &h.changes, Token: claim.Token, Logger: &o.Log,
		Stop: func(context.Context) (remote.Stopped, error) {
			defer stop()
			return remote.Stopped{Status: status(), Keeps: h.liveIDs()}, nil
		}})
	srv := remote.Server(h.counting(handler))
	var served errgroup.Group
	serve := func(l net.Listener) {
		served.Go(func() error {
			err := srv.Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			stop()
			return err
		})
	}
	serve(ln)
	var kept sync.WaitGroup
	kept.Go(func() {
		if err := claim.Keep(ctx, keepEvery, serve, func(err error) { o.Log.Warn().Err(err).Msg("the host's socket is gone and could not be made anew") }); err != nil {
			o.Log.Error().Err(err).Msg("this host is none any more, and ends")
			h.disinherit(ctx)
			stop()
		}
	})
	o.Log.Info().Int64("epoch", h.epoch).Str("rung", string(h.can.Rung)).Msg("host serves")
	if o.Serving != nil {
		o.Serving()
	}
	h.idle(ctx, o.Config.Host.Idle())
	stop()
	h.end() // waits return, sessions go on
	h.changes.Close()
	kept.Wait()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	if err := served.Wait(); err != nil {
		return err
	}
	o.Log.Info().Int("live", h.Live()).Msg("host ends")
	return nil
}

// disinherit ends the sessions that no host will ever find, because the journal that leads to them was deleted. Where it
// is still there the next host takes them up.
func (h *Host) disinherit(ctx context.Context) {
	if h.disk.present() == nil {
		return
	}
	h.mu.Lock()
	tenders := slices.Collect(maps.Values(h.tenders))
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, t := range tenders {
		wg.Go(func() {
			if !t.stop(ctx, closeLimit+usually.stop) {
				h.o.Log.Error().Str("session", t.session).Msg("a session that nobody can find any more could not be ended")
			}
		})
	}
	wg.Wait()
}

// counting keeps the host from going idle while a call is open that is more than watching.
func (h *Host) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if remote.Passive(r) {
			next.ServeHTTP(w, r)
			return
		}
		h.calls.Add(1)
		defer func() {
			h.mu.Lock()
			h.busySince = time.Now()
			h.mu.Unlock()
			h.calls.Add(-1)
		}()
		next.ServeHTTP(w, r)
	})
}

// idle returns when ctx ends, or when nothing has lived or called for the time given (below zero: never).
func (h *Host) idle(ctx context.Context, limit time.Duration) {
	if limit < 0 {
		<-ctx.Done()
		return
	}
	next := limit
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		h.mu.Lock()
		quiet := time.Since(h.busySince)
		busy := len(h.tenders) > 0 || h.calls.Load() > 0
		h.mu.Unlock()
		if !busy && quiet >= limit {
			return
		}
		next = limit
		if !busy {
			next = limit - quiet
		}
	}
}

// owners counts the live sessions of each principal, those apart whose owner could not be read.
func (h *Host) owners() map[string]int {
	n := map[string]int{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tenders {
		select {
		case <-t.proven:
		default:
			if t.owner != "" {
				n[t.owner]++
			}
		}
	}
	return n
}

// liveIDs are the sessions that have a bridge or are about to. One whose bridge is proven gone has none, although its
// tender is still tidying up: its close has been answered.
func (h *Host) liveIDs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.tenders))
	for id, t := range h.tenders {
		select {
		case <-t.proven:
		default:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
