package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/fixtures/record"
)

const relayScript = "testdata/plan-implement-review.sh"

// relayTask has the planner say, in the title of what it ran, what the implementer is to do; the reviewer is told it too.
const relayTask = "[run true [edit out.txt implemented]]"

// The example of three sessions that hand their work over, killed at random moments and run again: it ends as if nothing
// had happened, every prompt reached its agent once, and every session is closed. 50 kills with BATON_FULL=1, else 3;
// BATON_SEED chooses others.
func TestRelayScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.path("bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, w.path("bin/baton")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(w.path("baton/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("baton/config.toml", string(config)+`
[runners.recorded]
protocol = "app-server"
command = ["baton:agent", "app-server", "--record", "`+w.path("record")+`"]
`)
	w.env = append(w.env, "PATH="+w.path("bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))

	began := time.Now()
	want, killed := w.relay(t, "whole", 0)
	whole := time.Since(began)
	if killed || want != "rejected by user: out.txt\n" { // the reviewer followed the plan, and was not let
		t.Fatalf("an undisturbed run said %q", want)
	}
	w.relayed(t, "whole")

	kills := 3
	if os.Getenv("BATON_FULL") != "" {
		kills = 50
	}
	seed := codexSeed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	hits := 0
	for n := range kills {
		name := "killed" + string(rune('a'+n/26)) + string(rune('a'+n%26))
		said, killed := w.relay(t, name, time.Duration(r.Int64N(int64(whole))))
		if killed {
			hits++
			said, _ = w.relay(t, name, 0)
		}
		if said != want {
			t.Errorf("BATON_SEED=%d, kill %d: run again it said %q, want %q", seed, n, said, want)
		}
		w.relayed(t, name)
		if n%10 > 0 {
			continue
		}
		again, _ := w.relay(t, name, 0) // when everything is done already
		if again != want {
			t.Errorf("BATON_SEED=%d, kill %d: run once more it said %q", seed, n, again)
		}
		w.relayed(t, name)
	}
	t.Logf("BATON_SEED=%d: %d of %d kills met the script in %v, and every prompt was given once", seed, hits, kills, whole)
}

// relay runs the script; after a while above zero it and what it runs are killed, unless it was faster.
func (w *world) relay(t *testing.T, name string, after time.Duration) (said string, killed bool) {
	t.Helper()
	work := w.path("work/" + name)
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command("sh", relayScript, name, "recorded", work, relayTask)
	cmd.Env = w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		kill := time.AfterFunc(after, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer kill.Stop()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), false
	case after > 0 && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return out.String(), true
	}
	t.Fatalf("the script %s: %v\n%s\n%s", name, err, out.String(), errs.String())
	return "", false
}

// relayed wants the end of a relay: the work done, each prompt given once, the sessions closed.
func (w *world) relayed(t *testing.T, name string) {
	t.Helper()
	if b, err := os.ReadFile(w.path("work/" + name + "/out.txt")); err != nil || strings.TrimSpace(string(b)) != "implemented" {
		t.Errorf("%s: what was planned was not implemented: %q, %v", name, b, err)
	}
	sent, err := record.Read(w.path("record"))
	if err != nil {
		t.Fatal(err)
	}
	prompts := map[string]int{}
	for _, e := range sent {
		if e.Kind == "prompt" && strings.HasPrefix(e.ID, name+".") {
			prompts[e.ID]++
		}
	}
	for _, role := range []string{"planner", "implementer", "reviewer"} {
		if n := prompts[name+"."+role+".prompt"]; n != 1 {
			t.Errorf("%s: the prompt of the %s was given %d times; %v", name, role, n, sent)
		}
	}
	if out := w.says("list", "-o", "id"); out != "" {
		t.Errorf("%s: left open: %s", name, out)
	}
}
