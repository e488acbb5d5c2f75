package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// latency measures how long a send takes to be acknowledged as durable, and how soon after the commit of its news a wait
// for fifty sessions returns. The floor of both is a byte through a pipe and one synced write of a page.
func (b *bench) latency(ctx context.Context) (err error) {
	n := b.pick(300, 15)
	floor, err := benchFloor(filepath.Join(b.dir, "floor"), n)
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
	s, err := h.create(ctx, benchCodex)
	if err != nil {
		return errors.Join(err, h.end(ctx))
	}
	defer func() { err = errors.Join(err, h.end(ctx, s.SessionID)) }()
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
		if len(res.Sessions) != 1 || res.Sessions[0].Session.SessionID != s.SessionID {
			return fmt.Errorf("%d sessions ended the wait", len(res.Sessions))
		}
		// The session was changed by the transaction that the wait was woken for, which had its commit still to make.
		wakes = append(wakes, milliseconds(time.Since(res.Sessions[0].Session.UpdatedAt)))
		after[s.SessionID] = res.Sessions[0].Cursor
	}
	for _, p := range []int{50, 99} {
		b.report.add(benchFigure{Case: fmt.Sprintf("receipt of a send, p%d", p), Value: percentile(receipts, p), Floor: percentile(floor, p), Unit: "ms"})
		f := benchFigure{Case: fmt.Sprintf("wake-up of a wait for %d, p%d", len(ids), p), Value: percentile(wakes, p), Unit: "ms", Floor: percentile(floor, p),
			Note: "from before the commit"}
		b.report.add(f)
	}
	return nil
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
