package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// cutRun is one life of a journal on a fake disk whose power goes at some step.
type cutRun struct {
	t     *testing.T
	d     *fakeDisk
	rnd   *rand.Rand
	ids   []string
	mu    sync.Mutex
	acked []string         // ids of commands whose Update returned nil
	read  map[string]int64 // the last event of a session that a reader saw
	kept  map[string]int64 // the first event that an acknowledged retention kept
	tried int              // commands begun
	asked map[string]int64 // what retention was asked to keep from, acknowledged or not
}

const cutPath = "/state/journal.db"

// TestPowerCut cuts the power at every k-th change of the disk, under the journal as it is in production with readers
// beside the writer, and looks at what the next opening finds. By default a sample; BATON_FULL=1 makes at least 2,000
// cuts; BATON_SEED repeats a run.
func TestPowerCut(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("BATON_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	want := amount(10, 100, 2000)
	t.Logf("BATON_SEED=%d", seed)
	cuts, lost, dir := 0, 0, t.TempDir()
	for round := uint64(0); cuts < want; round++ {
		whole := life(t, dir, seed+round, 0)
		if t.Failed() {
			return
		}
		steps := whole.d.steps
		// Ten rounds and more, so that each sees another work and another set of steps.
		stride := max(1, steps*10/want)
		for cut := 1 + int(round)%stride; cut <= steps && cuts < want; cut += stride {
			r := life(t, dir, seed+round, cut)
			if !r.d.dead {
				continue // fewer commits than in the whole run: groups are a matter of timing
			}
			cuts++
			if !r.inspect(fmt.Sprintf("seed %d, cut at step %d", seed+round, cut)) {
				if lost++; lost > 5 {
					t.Fatalf("gave up after %d cuts", cuts)
				}
			}
		}
	}
	t.Logf("%d power cuts, %d with a loss", cuts, lost)
}

// life works on a new journal until the power goes, or to the end.
func life(t *testing.T, dir string, seed uint64, cut int) *cutRun {
	r := &cutRun{t: t, d: mountFakeDisk(dir, seed), rnd: rand.New(rand.NewPCG(seed, 2)), read: map[string]int64{}, kept: map[string]int64{},
		asked: map[string]int64{}}
	defer r.d.unmount()
	r.d.cut = cut
	ctx := context.Background()
	j, err := Open(ctx, cutPath, r.d.options())
	if err != nil {
		if !r.d.dead {
			t.Errorf("open: %v", err)
		}
		return r
	}
	for i := range 3 {
		r.ids = append(r.ids, fmt.Sprintf("s%d", i))
	}
	r.work(ctx, j)
	if err := j.Close(); err != nil && !r.d.dead {
		t.Errorf("close: %v", err)
	}
	return r
}

// work gives the journal commands from one and from several callers, with a reader after each.
func (r *cutRun) work(ctx context.Context, j *Journal) {
	for _, id := range r.ids {
		if err := j.Update(ctx, func(tx *Tx) error {
			return tx.InsertSession(&Session{ID: id, Principal: "p", Runner: "r", Cwd: "/w"})
		}); err != nil {
			return
		}
	}
	for range 30 {
		callers := 1
		if r.rnd.IntN(3) == 0 {
			callers = 4
		}
		var wg sync.WaitGroup
		for range callers {
			r.tried++
			id, name, size := r.ids[r.rnd.IntN(len(r.ids))], fmt.Sprintf("c%d", r.tried), r.rnd.IntN(6000)
			wg.Go(func() {
				err := j.Update(ctx, func(tx *Tx) error {
					if err := tx.InsertCommand(&Command{Command: sessions.Command{Session: id, CommandID: name}, Text: string(make([]byte, size))}); err != nil {
						return err
					}
					_, err := tx.AppendEvents(id, []sessions.Event{{Kind: sessions.EventWarning, Command: name}, {Kind: sessions.EventText, Command: name, Text: name}})
					return err
				})
				if err == nil {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.acked = append(r.acked, id+" "+name)
				}
			})
			if r.rnd.IntN(2) == 0 {
				wg.Go(func() { r.look(ctx, j, id) })
			}
		}
		wg.Wait()
		if r.rnd.IntN(12) == 0 {
			r.cutEvents(ctx, j, r.ids[r.rnd.IntN(len(r.ids))])
		}
		if j.Health() != nil {
			return
		}
	}
}

// look reads a session's events from the last one seen.
func (r *cutRun) look(ctx context.Context, j *Journal, id string) {
	r.mu.Lock()
	after := r.read[id]
	r.mu.Unlock()
	_ = j.View(ctx, func(tx *Tx) error {
		p, err := tx.ReadEvents(id, after, 100, nil, 0)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range p.Events {
			r.read[id] = max(r.read[id], e.Seq)
		}
		return nil
	})
}

func (r *cutRun) cutEvents(ctx context.Context, j *Journal, id string) {
	var first int64
	err := j.Update(ctx, func(tx *Tx) error {
		if _, err := tx.KeepEvents(id, 4); err != nil {
			return err
		}
		s, _, err := tx.FindSession(id)
		first = s.FirstSeq
		r.asked[id] = max(r.asked[id], first)
		return err
	})
	if err == nil {
		r.kept[id] = first
		_, _ = j.Purge(ctx)
	}
}

// inspect opens what the cut left and looks for what was acknowledged or read.
func (r *cutRun) inspect(what string) bool {
	ctx := context.Background()
	d := r.d.reboot()
	defer d.unmount()
	j, err := Open(ctx, cutPath, d.options())
	if err != nil {
		r.t.Errorf("%s: open after the cut: %v", what, err)
		return false
	}
	ok := true
	fail := func(format string, args ...any) {
		ok = false
		r.t.Errorf(what+": "+format, args...)
	}
	problems, err := j.check(ctx, false)
	if err != nil {
		fail("check: %v", err)
	}
	for _, p := range problems {
		fail("%v", p)
	}
	err = j.View(ctx, func(tx *Tx) error {
		for _, a := range r.acked {
			var id, name string
			if _, err := fmt.Sscan(a, &id, &name); err != nil {
				return err
			}
			if _, found, err := tx.FindCommand(id, name); err != nil || !found {
				fail("acknowledged command %s is lost (%v)", a, err)
			}
		}
		for id, seq := range r.read {
			s, _, err := tx.FindSession(id)
			if err != nil || s.LastSeq < seq {
				fail("event %d of %s was read, the last one is %d (%v)", seq, id, s.LastSeq, err)
			}
			if s.FirstSeq > max(1, r.asked[id]) || s.FirstSeq < r.kept[id] {
				fail("events of %s begin at %d, retention kept them from %d", id, s.FirstSeq, r.kept[id])
			}
		}
		return nil
	})
	if err != nil {
		fail("view: %v", err)
	}
	// It goes on as if nothing had happened.
	err = j.Update(ctx, func(tx *Tx) error {
		return tx.InsertSession(&Session{ID: "after", Principal: "p", Runner: "r", Cwd: "/w"})
	})
	if err != nil {
		fail("update: %v", err)
	}
	if err := j.Close(); err != nil {
		fail("close: %v", err)
	}
	return ok
}

// A suite that cannot fail proves nothing: with the sync weakened (build tag weaksync) it must lose commits.
func TestWeakSyncTurnsThePowerCutsRed(t *testing.T) {
	if !full() {
		t.Skip("BATON_FULL=1 builds the weakened suite")
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-tags", "weaksync", "-run", "TestPowerCut$", ".").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "acknowledged command") {
		t.Errorf("the suite with a weakened sync: %v\n%s", err, out)
	}
}
