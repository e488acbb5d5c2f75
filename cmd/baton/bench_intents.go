package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// intents compares durable intents (a command, its input and its event, in one update) with one file entry each. Slices
// of all of them are taken in turn, because a disk's own speed changes from second to second.
func (b *bench) intents(ctx context.Context) (err error) {
	j, err := journal.Open(ctx, filepath.Join(b.dir, "intents", "journal.db"), journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	rounds, slice := b.pick(9, 2), time.Duration(b.pick(250, 40))*time.Millisecond
	callers := []int{1, 16, 128}
	var floor []float64
	rates := map[int][]float64{}
	number := &atomic.Int64{}
	for range rounds {
		rate, err := benchEntries(filepath.Join(b.dir, "intents", "log"), slice)
		if err != nil {
			return err
		}
		floor = append(floor, rate)
		for _, n := range callers {
			if rate, err = benchIntents(ctx, j, n, slice, number); err != nil {
				return err
			}
			rates[n] = append(rates[n], rate)
		}
	}
	base := median(floor)
	for _, n := range callers {
		f := benchFigure{Case: fmt.Sprintf("%d callers", n), Value: median(rates[n]), Floor: base, Unit: "/s"}
		switch n {
		case 1:
			f.Case = "1 caller"
		case 16:
			f.atLeast = 4
		case 128:
			f.atLeast = 12
		}
		b.report.add(f)
	}
	return nil
}

// benchIntents is the rate at which so many callers get intents of one command each acknowledged.
func benchIntents(ctx context.Context, j *journal.Journal, callers int, slice time.Duration, number *atomic.Int64) (float64, error) {
	type target struct{ session, generation string }
	targets := make([]target, callers)
	for i := range targets {
		t := target{sessions.NewSessionID(), sessions.NewID()}
		targets[i] = t
		err := j.Update(ctx, func(tx *journal.Tx) error {
			if err := tx.InsertSession(&journal.Session{ID: t.session, Principal: "bench", Generation: t.generation}); err != nil {
				return err
			}
			return tx.InsertGeneration(&journal.Generation{ID: t.generation, Session: t.session})
		})
		if err != nil {
			return 0, err
		}
	}
	text := strings.Repeat("x", 200)
	var done atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for _, at := range targets {
		wg.Go(func() {
			for time.Since(began) < slice && ctx.Err() == nil {
				id := fmt.Sprint("c", number.Add(1))
				err := j.Update(ctx, func(tx *journal.Tx) error {
					c := journal.Command{Command: sessions.Command{Session: at.session, CommandID: id, Generation: at.generation}, Text: text}
					if err := tx.InsertCommand(&c); err != nil {
						return err
					}
					if _, err := tx.AppendInput(at.generation, journal.InputPrompt, id, sessions.Prompt{CommandID: id}); err != nil {
						return err
					}
					_, err := tx.AppendEvents(at.session, []sessions.Event{{Kind: sessions.EventCommandSubmitted, Command: id}})
					return err
				})
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(failed, ctx.Err())
}

// benchEntries is the rate of the plain way: open, write, sync, close, and sync of the folder, for each entry.
func benchEntries(path string, slice time.Duration) (float64, error) {
	line := []byte(strings.Repeat("x", 400) + "\n")
	n, began := 0, time.Now()
	for ; time.Since(began) < slice; n++ {
		if err := benchEntry(path, line); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

func benchEntry(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
