package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// benchWaits is how many open waits other calls are made beside.
const benchWaits = 40

// latency measures how long a send takes to be acknowledged as durable, against a byte through a pipe and one synced write
// of a page; how soon after the commit of its news a wait for fifty sessions returns to its caller; and what another call
// takes beside forty such waits, against the same call without them. The host runs in this process, to see its commits.
func (b *bench) latency(ctx context.Context) (err error) {
	n := b.pick(1000, 15)
	floor, err := benchFloor(filepath.Join(b.dir, "floor"), min(n, 300))
	if err != nil {
		return err
	}
	h, err := b.home("latency")
	if err != nil {
		return err
	}
	ids, err := benchClosed(ctx, h, sessions.MaxWaitSessions-1)
	if err != nil {
		return err
	}
	var commits benchCommits
	end, err := h.serve(ctx, commits.committed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s, err := h.create(ctx, benchCodex)
	if err != nil {
		return err
	}
	defer func() {
		_, e := h.Close(context.WithoutCancel(ctx), benchCaller, sessions.CloseArgs{SessionID: s.SessionID})
		err = errors.Join(err, e)
	}()
	commits.of(s.SessionID)
	after := map[string]string{s.SessionID: s.Cursor}
	for _, id := range ids {
		after[id] = sessions.EncodeCursor(id, 1)
	}
	ids = append(ids, s.SessionID)
	var receipts, wakes []float64
	for range n {
		began := time.Now()
		if _, err := h.Send(ctx, benchCaller, sessions.SendArgs{SessionID: s.SessionID, Text: "[slow 2][say 1]"}); err != nil {
			return err
		}
		receipts = append(receipts, milliseconds(time.Since(began)))
		wait := 20
		res, err := h.Wait(ctx, benchCaller, sessions.WaitArgs{SessionIDs: ids, After: after, WaitSeconds: &wait})
		if err != nil {
			return err
		}
		woken := time.Now()
		if len(res.Sessions) != 1 || res.Sessions[0].Session.SessionID != s.SessionID {
			return fmt.Errorf("%d sessions ended the wait", len(res.Sessions))
		}
		durable, ok := commits.first(res.Sessions[0].Session.UpdatedAt)
		if !ok {
			return errors.New("a wait returned before what it tells was durable")
		}
		wakes = append(wakes, milliseconds(woken.Sub(durable)))
		after[s.SessionID] = res.Sessions[0].Cursor
	}
	for _, p := range []int{50, 99} {
		b.report.add(benchFigure{Case: fmt.Sprintf("receipt of a send, p%d", p), Value: percentile(receipts, p), Floor: percentile(floor, p), Unit: "ms"})
	}
	b.report.add(benchFigure{Case: fmt.Sprintf("wake-up of a wait for %d, p50", len(ids)), Value: percentile(wakes, 50), Unit: "ms", Note: "from the commit to the caller"})
	b.report.add(benchFigure{Case: fmt.Sprintf("wake-up of a wait for %d, p99", len(ids)), Value: percentile(wakes, 99), Unit: "ms", atMost: 10, Note: "from the commit to the caller"})
	return b.besideWaits(ctx, h, ids, after)
}

// besideWaits makes the same call in turn with many waits open and without.
func (b *bench) besideWaits(ctx context.Context, h *benchHome, ids []string, after map[string]string) error {
	calls := func() ([]float64, error) {
		var took []float64
		for range b.pick(100, 5) {
			began := time.Now()
			if _, err := h.List(ctx, benchCaller, sessions.ListArgs{All: true, Limit: 10}); err != nil {
				return nil, err
			}
			took = append(took, milliseconds(time.Since(began)))
		}
		return took, nil
	}
	var alone, beside []float64
	for range b.pick(10, 1) {
		took, err := calls()
		if err != nil {
			return err
		}
		alone = append(alone, took...)
		waiting, leave := context.WithCancel(ctx)
		over := make(chan error, benchWaits)
		for range benchWaits {
			go func() {
				wait := sessions.MaxWaitSeconds
				_, err := h.Wait(waiting, benchCaller, sessions.WaitArgs{SessionIDs: ids, After: after, WaitSeconds: &wait})
				over <- err
			}()
		}
		time.Sleep(100 * time.Millisecond) // until they wait
		took, err = calls()
		early := len(over)
		leave()
		for range benchWaits {
			<-over
		}
		if err != nil {
			return err
		}
		if early > 0 {
			return fmt.Errorf("%d of %d waits returned, and there was no news", early, benchWaits)
		}
		beside = append(beside, took...)
	}
	for _, p := range []int{50, 99} {
		f := benchFigure{Case: fmt.Sprintf("a list beside %d waits, p%d", benchWaits, p), Value: percentile(beside, p), Floor: percentile(alone, p), Unit: "ms", Note: "floor: without them"}
		if p == 50 {
			f.atMost = 1.5
		}
		b.report.add(f)
	}
	return nil
}

// benchCommits notes when the commits of one session were durable.
type benchCommits struct {
	mu    sync.Mutex
	id    string
	times []time.Time
}

func (c *benchCommits) of(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.times = session, nil
}

func (c *benchCommits) committed(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := slices.BinarySearch(ids, c.id); found {
		c.times = append(c.times, time.Now())
	}
}

// first is the first commit after a change was made: the one that holds it. Earlier ones are forgotten.
func (c *benchCommits) first(change time.Time) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, at := range c.times {
		if !at.Before(change) {
			c.times = c.times[i:]
			return at, true
		}
	}
	return time.Time{}, false
}

// benchFloor times a page written and synced, and a byte through a pipe to another goroutine and back.
func benchFloor(path string, n int) (took []float64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	there, toThem, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	back, toUs, err := os.Pipe()
	if err != nil {
		there.Close()
		toThem.Close()
		return nil, err
	}
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		defer toUs.Close()
		for one := make([]byte, 1); ; {
			if _, err := there.Read(one); err != nil {
				return
			}
			toUs.Write(one)
		}
	}()
	defer func() {
		toThem.Close()
		<-echoed
		there.Close()
		back.Close()
	}()
	page, one := make([]byte, 4096), []byte{1}
	for range n {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		if _, err := toThem.Write(one); err != nil {
			return nil, err
		}
		if _, err := back.Read(one); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	return took, nil
}

// benchClosed puts so many ended sessions, of one event each, into the journal of a home whose host does not run yet.
func benchClosed(ctx context.Context, h *benchHome, n int) (ids []string, err error) {
	err = h.journal(ctx, func(j *journal.Journal) error {
		for range n {
			id, err := benchHistory(ctx, j, 1)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}
