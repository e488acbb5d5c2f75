package main

import (
	"strings"
	"testing"
)

// BG-01: agents that were started in the background go on without any host. One ends its turn, one leaves, one is killed
// and one works on; the next host tells of each what is so, and the one that lives is steered, stopped and goes on to what
// was queued.
func TestBackgroundAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := func(prompt string) string {
		return strings.TrimSpace(w.says("run", "--detach", "-o", "id", "-r", "codexlike", "-C", w.work, prompt))
	}
	ends := start("[slow 300][say 6][write ends x]")
	leaves := start("[slow 300][say 6][write leaves x][exit 3]")
	dies := start("[slow 300][say 6][write dies x][crash]")
	lives := start("[say 3][write lives x][wait]")
	await(t, "the one that lives", func() bool { return exists(w.work + "/lives") })
	w.says("send", "--when-busy", "queue", "--key", "next", lives, "[say 4]")
	w.killHost()
	await(t, "the ends without a host", func() bool {
		return exists(w.work+"/ends") && exists(w.work+"/leaves") && exists(w.work+"/dies")
	})

	for id, want := range map[string]struct {
		status int
		says   string
	}{ends: {0, "is completed"}, leaves: {5, "status 3"}, dies: {5, "killed by SIGKILL"}} {
		out, errs, status := w.verb("wait", id)
		if status != want.status || !strings.Contains(out, want.says) {
			t.Errorf("wait: status %d, want %d and %q\n%s%s", status, want.status, want.says, out, errs)
		}
		if logs := w.says("logs", id); strings.Count(logs, "w1 w2 w3 w4 w5 w6") != 1 {
			t.Errorf("the log is not continuous: %s", logs)
		}
	}
	if out := w.says("list", "--state", "running", "-o", "id"); strings.TrimSpace(out) != lives {
		t.Errorf("running: %q, want %s", out, lives)
	}
	c := w.terminal("attach", lives)
	c.sees("w1 w2 w3")
	c.sees("Ctrl-D detaches")
	c.types(":steer [say 5]\n")
	c.sees("w1 w2 w3 w4 w5")
	c.sees("-- completed")
	c.sees("> [say 4]") // what was queued begins when the turn has ended
	c.sees("w1 w2 w3 w4")
	c.types(ctrlD)
	c.ends(0)
	w.says("stop", lives)
	if _, errs, status := w.verb("send", lives, "x"); status != exitError || !strings.Contains(errs, "baton resume") {
		t.Errorf("a send to what was stopped: %d %s", status, errs)
	}
}
