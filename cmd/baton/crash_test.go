package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sessions"
)

// The crash suite: a user works with an agent, and kill -9 ends the front end, the host, the bridge or the agent, at a
// random moment or at a named point of the program (with the tag failpoints). Afterwards nothing was done twice, nothing
// that was acknowledged is lost, no outcome is invented, nothing hangs and no process is left; and where only a front end
// or a host died, everything ended as if it had not.
//
//	BATON_FULL=1    the whole suite
//	BATON_SEED=n    other cases; a run prints its seed
//	BATON_CASE=n    one case of them
//	BATON_CASES=n   so many
func TestCrash(t *testing.T) {
	seed, first, count := uint64(1), 0, 24
	switch {
	case os.Getenv("BATON_FULL") != "":
		seed, count = uint64(time.Now().UnixNano()), 400
	case testing.Short():
		count = 6
	}
	for name, to := range map[string]func(uint64){
		"BATON_SEED":  func(n uint64) { seed = n },
		"BATON_CASES": func(n uint64) { count = int(n) },
		"BATON_CASE":  func(n uint64) { first, count = int(n), 1 },
	} {
		if v := os.Getenv(name); v != "" {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			to(n)
		}
	}
	t.Logf("BATON_SEED=%d, cases %d to %d; named points: %v", seed, first, first+count-1, failpoint.Enabled)
	var all tally
	t.Run("cases", func(t *testing.T) {
		for n := first; n < first+count; n++ {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				crash(t, newPlan(seed, n), &all)
			})
		}
	})
	t.Log(all.String())
}

// crash plays one case and judges it.
func crash(t *testing.T, p plan, all *tally) {
	w := crashWorld(t, p)
	m := &mortal{w: w, env: append(p.env(w.path("points")), w.env...)}
	d := &driver{m: m, p: p, r: rand.New(rand.NewPCG(p.seed+1, uint64(p.n))), work: w.work,
		deleted: map[string]bool{}, kept: map[string][]sessions.Event{}}
	a := newAssassin(w, m, p)
	m.gate = a.mourn
	j := &judge{d: d}
	end := func() *judge { return nil }
	if p.company {
		end = accompany(w, m, p)
	}
	for i, name := range p.steps {
		a.begin(i)
		err := d.play(name)
		if err == nil && (!p.strict() || p.away) && d.session != "" {
			err = d.recover()
		}
		if err != nil {
			j.fault("step %d, %s: %v", i, name, err)
			break
		}
	}
	other := end()
	all.add(p, a.end())
	m.close()
	fresh := &mortal{w: w, env: w.env}
	j.judge(fresh)
	if other != nil {
		other.judge(fresh)
		for _, f := range other.faults {
			j.fault("in company: %s", f)
		}
	}
	fresh.close()
	w.stop(j)
	j.journal()
	j.logs()
	if len(j.faults) == 0 {
		return
	}
	t.Errorf("%v\nagain: BATON_SEED=%d BATON_CASE=%d go test -run TestCrash %s./cmd/baton", p, p.seed, p.n, tags())
	for _, f := range j.faults {
		t.Error(f)
	}
	w.dump()
}

// accompany has somebody else work in a session of its own, whom nothing may disturb, until the returned function is
// called.
func accompany(w *world, m *mortal, p plan) (end func() *judge) {
	p.runner, p.shy = "codexlike", 0
	d := &driver{m: &mortal{w: w, env: m.env}, p: p, r: rand.New(rand.NewPCG(p.seed+2, uint64(p.n))), work: w.work,
		deleted: map[string]bool{}, kept: map[string][]sessions.Event{}}
	j := &judge{d: d}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer d.m.close()
		for step := 0; ; step++ {
			name := []string{"create", "stream", "approve", "cancel", "ask"}[min(step, 1+step%4)]
			if err := d.play(name); err != nil {
				j.fault("step %d, %s: %v", step, name, err)
				return
			}
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	return func() *judge {
		close(over)
		<-done
		return j
	}
}

func tags() string {
	if failpoint.Enabled {
		return "-tags failpoints "
	}
	return ""
}

// crashWorld is a world whose end is the judge's business.
func crashWorld(t *testing.T, p plan) *world {
	dir := t.TempDir()
	w := &world{t: t, dir: dir, work: filepath.Join(dir, "work")}
	for _, d := range []string{w.work, w.path("home"), w.path("tmp"), w.path("baton"), w.path("points")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	grace := "15m"
	if p.away {
		grace = "1s"
	}
	w.write("baton/config.toml", `
[host]
idle_exit = "60s"
orphan_grace = "`+grace+`"
allow_unconfined_full_access = true

[runners.codexlike]
protocol = "app-server"
command = ["baton:agent", "app-server"]

[runners.cursorlike]
protocol = "acp"
command = ["baton:agent", "acp"]
`)
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "BATON_HOME=" + w.path("baton"), "GORACE=" + os.Getenv("GORACE"),
		"BATON_FIXTURE_RECORD=" + w.path("record"), "GORACE=" + os.Getenv("GORACE")}
	return w
}

// stop ends the host and looks for what is left.
func (w *world) stop(j *judge) {
	hosts := w.find(" host run")
	if len(hosts) > 1 {
		j.fault("left: hosts %v", hosts)
	}
	for _, h := range hosts {
		if said, err := w.say("host", "stop"); err != nil {
			j.fault("left: baton host stop: %v: %s", err, said)
			kill9(h.PID)
		}
		if !within(patience, func() bool { return !alive(h.PID) }) {
			j.fault("left: the host does not end")
		}
	}
	if !within(patience, func() bool { return len(w.processes()) == 0 }) {
		j.fault("left: %v", w.processes())
		for _, p := range w.processes() {
			kill9(p.PID)
		}
	}
}

// within waits for something that has no event to wait for.
func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// dump shows the logs of a case that failed.
func (w *world) dump() {
	names, err := filepath.Glob(w.path("baton/state/logs/*"))
	if err != nil {
		w.t.Error(err)
	}
	for _, name := range append(names, w.path("front.log"), w.path("record")) {
		b, err := os.ReadFile(name)
		if err != nil || len(b) == 0 {
			continue
		}
		const most = 12 << 10
		if len(b) > most {
			b = b[len(b)-most:]
		}
		w.t.Logf("%s:\n%s", filepath.Base(name), b)
	}
}
