package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// BenchmarkIntents compares intents a second (a command, its input and its event, durable) with the plain way of one
// open, write, fsync, close and fsync of the directory per entry of the same size. Slices of all of them are taken in
// turn in one run, because the disk's own speed changes from second to second; the metrics are medians.
//
//	go test -run '^$' -bench Intents -benchtime 1x ./sessions/journal
func BenchmarkIntents(b *testing.B) {
	const rounds, slice = 7, 250 * time.Millisecond
	j := open(b, Options{})
	rates := map[string][]float64{}
	number := atomic.Int64{}
	for range b.N {
		for range rounds {
			rates["file"] = append(rates["file"], plainEntries(b, slice))
			for _, callers := range []int{1, 16, 128} {
				what := fmt.Sprint(callers)
				rates[what] = append(rates[what], intents(b, j, callers, slice, &number))
			}
		}
	}
	median := func(what string) float64 {
		slices.Sort(rates[what])
		return rates[what][len(rates[what])/2]
	}
	base := median("file")
	b.ReportMetric(base, "file/s")
	for _, what := range []string{"1", "16", "128"} {
		b.ReportMetric(median(what), what+"-callers/s")
		b.ReportMetric(median(what)/base, what+"-callers-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

func intents(b *testing.B, j *Journal, callers int, slice time.Duration, number *atomic.Int64) float64 {
	ctx := context.Background()
	type target struct{ session, generation string }
	targets := make([]target, callers)
	for i := range targets {
		s, g := live(b, j, sessions.SessionStart, sessions.SessionOpened)
		targets[i] = target{s.ID, g.ID}
	}
	text := strings.Repeat("x", 200)
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, at := range targets {
		wg.Go(func() {
			for time.Since(began) < slice {
				id := fmt.Sprint("c", number.Add(1))
				err := j.Update(ctx, intent(at.session, at.generation, id, text))
				if err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// intent is what the host makes durable before a prompt leaves.
func intent(session, generation, id, text string) func(*Tx) error {
	return func(tx *Tx) error {
		c := Command{Command: sessions.Command{Session: session, CommandID: id, Generation: generation}, Text: text}
		if err := tx.InsertCommand(&c); err != nil {
			return err
		}
		if _, err := tx.AppendInput(generation, InputPrompt, id, sessions.Prompt{CommandID: id}); err != nil {
			return err
		}
		_, err := tx.AppendEvents(session, []sessions.Event{{Kind: sessions.EventCommandSubmitted, Command: id}})
		return err
	}
}

func plainEntries(b *testing.B, slice time.Duration) float64 {
	path := filepath.Join(b.TempDir(), "log")
	line := []byte(strings.Repeat("x", 400) + "\n")
	n, began := 0, time.Now()
	for ; time.Since(began) < slice; n++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		d, err := os.Open(filepath.Dir(path))
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkPage reads a page of 200 events from the middle of a session of 20,000.
func BenchmarkPage(b *testing.B) {
	j := open(b, Options{})
	s := newSession(b, j)
	for range 20 {
		if err := addEvents(j, s.ID, 1000); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		view(b, j, func(tx *Tx) error {
			_, err := tx.ReadEvents(s.ID, 10_000, 200, nil, sessions.MaxReadBytes)
			return err
		})
	}
}

// BenchmarkIntentCPU is an intent without a disk under it: what the engine and this package cost.
func BenchmarkIntentCPU(b *testing.B) {
	o := newFakeDisk(b, 1).options()
	o.checkpoint = 1000
	j := checked(b, openAt(b, cutPath, o))
	s, g := live(b, j, sessions.SessionStart, sessions.SessionOpened)
	text, n := strings.Repeat("x", 200), 0
	for b.Loop() {
		n++
		if err := j.Update(context.Background(), intent(s.ID, g.ID, fmt.Sprint("c", n), text)); err != nil {
			b.Fatal(err)
		}
	}
}
