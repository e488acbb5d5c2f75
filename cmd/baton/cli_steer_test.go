package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// Of two who answer at once the first one has answered: the other is told so, and nothing is done twice. Who names the
// generation that they know steers no other.
func TestTerminalOneSteers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.start()
	generation := func() string {
		var s sessions.Session
		if err := json.Unmarshal([]byte(w.says("list", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		return s.Generation
	}
	known := generation()
	watching, steering := w.terminal("attach", "--watch", id), w.terminal("attach", id)
	steering.sees("Ctrl-D detaches")
	watching.sees("is idle")
	steering.types("[approve touch once][say 2]\n")
	steering.sees("approve (y), deny (n)")
	watching.types("n\n") // nobody reads it
	request := regexp.MustCompile(`\? approval ([0-9a-f-]{36})`).FindStringSubmatch(steering.shown())
	if request == nil {
		t.Fatalf("no request: %s", steering.shown())
	}
	steering.types("y\n")
	for _, c := range []*console{watching, steering} {
		c.sees("w1 w2")
		c.sees("-- completed")
	}
	if _, errs, status := w.verb("respond", id, request[1], "--deny"); status != exitError || !strings.Contains(errs, "already_answered") {
		t.Errorf("a second answer: %d %s", status, errs)
	}
	if !exists(w.work + "/once") {
		t.Error("what the one who steers approved was not done")
	}
	w.says("send", "--wait", "--generation", known, id, "[say 1]")
	watching.sees("> [say 1]") // what another one sends is seen by all
	steering.types(ctrlD)
	steering.ends(0)
	watching.types(ctrlC)
	watching.ends(0)
	w.says("close", id)
	w.says("resume", "--accept-unconfirmed", id)
	if generation() == known {
		t.Error("a resume is no new generation")
	}
	if _, errs, status := w.verb("send", "--generation", known, id, "[say 1]"); status != exitError || !strings.Contains(errs, "stale_generation") {
		t.Errorf("a send for the generation before: %d %s", status, errs)
	}
	if _, errs, status := w.verb("send", "--lease", "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11", id, "[say 1]"); status != exitError || !strings.Contains(errs, "lease_lost") {
		t.Errorf("a send under a lease that nobody holds: %d %s", status, errs)
	}
}
