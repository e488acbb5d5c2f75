package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// benchPage is the size of a last page.
const benchPage = 200

// history measures what much history costs: the start of a host, from its spawn to its first answer, and its memory,
// against an empty one; and the last page of a long session against that of a short one.
func (b *bench) history(ctx context.Context) error {
	long, short, others := b.pick(1_000_000, 20_000), 1_000, b.pick(998, 18)
	empty, err := b.home("empty")
	if err != nil {
		return err
	}
	full, err := b.home("full") // the last one: the client's host is this one's
	if err != nil {
		return err
	}
	var longID, shortID string
	if err := full.journal(ctx, func(j *journal.Journal) (err error) {
		if longID, err = benchHistory(ctx, j, long); err != nil {
			return err
		}
		if shortID, err = benchHistory(ctx, j, short); err != nil {
			return err
		}
		for range others {
			if _, err = benchHistory(ctx, j, 3); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := empty.journal(ctx, func(*journal.Journal) error { return nil }); err != nil {
		return err
	}
	var starts, floor []float64
	var memory, least float64
	for range b.pick(9, 1) {
		took, kib, err := empty.start(ctx)
		if err != nil {
			return err
		}
		floor, least = append(floor, milliseconds(took)), max(least, kib)
		if took, kib, err = full.start(ctx); err != nil {
			return err
		}
		starts, memory = append(starts, milliseconds(took)), max(memory, kib)
	}
	what := fmt.Sprintf("%d sessions, %d events", others+2, long+short+3*others)
	b.report.add(benchFigure{Case: "start, " + what, Value: median(starts), Floor: median(floor), Unit: "ms", atMost: 1.5})
	b.report.add(benchFigure{Case: "memory of that host", Value: memory / 1024, Unit: "MiB", atMost: 64,
		Note: fmt.Sprintf("of an empty one %.0f MiB", least/1024)})
	return b.lastPages(ctx, full, longID, shortID, long, short)
}

// lastPages reads the last pages of both sessions in turn.
func (b *bench) lastPages(ctx context.Context, h *benchHome, longID, shortID string, long, short int) (err error) {
	defer func() { err = errors.Join(err, h.end(ctx)) }()
	page := func(id string, n int) (float64, error) {
		began := time.Now()
		p, err := h.Read(ctx, benchCaller, sessions.ReadArgs{SessionID: id, After: sessions.EncodeCursor(id, int64(n-benchPage)), MaxChars: sessions.MaxChars})
		if err == nil && (len(p.Events) != benchPage || p.HasMore || p.Events[benchPage-1].Seq != int64(n)) {
			err = fmt.Errorf("the last page of %d events has %d", n, len(p.Events))
		}
		return milliseconds(time.Since(began)), err
	}
	if _, err := h.List(ctx, benchCaller, sessions.ListArgs{}); err != nil { // starts the host
		return err
	}
	var of, floor []float64
	for range b.pick(200, 5) {
		took, err := page(shortID, short)
		if err != nil {
			return err
		}
		floor = append(floor, took)
		if took, err = page(longID, long); err != nil {
			return err
		}
		of = append(of, took)
	}
	b.report.add(benchFigure{Case: fmt.Sprintf("last page of %d events", long), Value: median(of), Floor: median(floor), Unit: "ms", atMost: 2,
		Note: fmt.Sprintf("floor: of %d", short)})
	return nil
}

// journal opens the journal of a home that has no host.
func (h *benchHome) journal(ctx context.Context, do func(*journal.Journal) error) error {
	if err := h.places.Make(); err != nil {
		return err
	}
	j, err := journal.Open(ctx, h.places.Journal(), journal.Options{})
	if err != nil {
		return err
	}
	return errors.Join(do(j), j.Close())
}

// benchHistory adds an ended session of n events.
func benchHistory(ctx context.Context, j *journal.Journal, n int) (string, error) {
	id, generation := sessions.NewSessionID(), sessions.NewID()
	err := j.Update(ctx, func(tx *journal.Tx) error {
		if err := tx.InsertSession(&journal.Session{ID: id, Principal: benchCaller.Principal, Runner: benchCodex, Generation: generation, HadTurn: true}); err != nil {
			return err
		}
		if err := tx.InsertGeneration(&journal.Generation{ID: generation, Session: id}); err != nil {
			return err
		}
		for _, e := range []sessions.SessionEvent{sessions.SessionStart, sessions.SessionOpened, sessions.SessionClose, sessions.SessionStop} {
			if _, err := tx.MoveSession(id, e); err != nil {
				return err
			}
		}
		_, err := tx.EndGeneration(generation, "confirmed", "pid_namespace")
		return err
	})
	text := strings.Repeat("x", benchSize)
	for at := 0; at < n && err == nil; {
		evs := make([]sessions.Event, min(5000, n-at))
		for i := range evs {
			evs[i] = sessions.Event{Kind: sessions.EventText, Generation: generation, Command: "c", Item: "i", Text: text}
		}
		at += len(evs)
		err = j.Update(ctx, func(tx *journal.Tx) error {
			_, err := tx.AppendEvents(id, evs)
			return err
		})
	}
	return id, err
}

// start is the time from the spawn of the home's host to its first answer, and its memory then, in KiB; it stops it
// again.
func (h *benchHome) start(ctx context.Context) (took time.Duration, kib float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(self, "host", "run")
	cmd.Env = h.env
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_, e := h.Stop(context.WithoutCancel(ctx))
		err = errors.Join(err, e, cmd.Wait())
	}()
	for end := began.Add(30 * time.Second); ; {
		if _, err = h.Status(ctx); err == nil {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return 0, 0, err
		}
		time.Sleep(time.Millisecond)
	}
	took = time.Since(began)
	kib, err = benchMemory(cmd.Process.Pid)
	return took, kib, err
}

// benchMemory is the resident memory of a process in KiB.
func benchMemory(pid int) (float64, error) {
	text := ""
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		_, text, _ = strings.Cut(string(status), "VmRSS:")
		text, _, _ = strings.Cut(text, "kB")
	} else {
		out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return 0, fmt.Errorf("ps: %w", err)
		}
		text = string(out)
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}
