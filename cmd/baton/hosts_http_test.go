package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// TestRealHostsOverHTTP: the same hosts reach a host over HTTP, with a token; BATON_FULL=1.
func TestRealHostsOverHTTP(t *testing.T) {
	if os.Getenv("BATON_FULL") == "" {
		t.Skip("SKIPPED: BATON_FULL=1 has real hosts come over HTTP too")
	}
	for _, h := range mcpHosts {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(h.variable) == "" {
				t.Skipf("SKIPPED: %s names no %s; `.ci/agents %s` installs one", h.variable, h.name, h.installer)
			}
			w := newWorld(t)
			h.prepare(w)
			w.env = append(w.env, "BATON_FIXTURE_RECORD="+w.path("work/record")) // it writes in the token's folder alone
			if err := os.Symlink(w.path("work/record"), w.path("record")); err != nil {
				t.Fatal(err)
			}
			url := w.serveHTTP()
			var token struct{ Secret string }
			if err := json.Unmarshal([]byte(w.baton("token", "new", "host", "--folder", w.work, "--json")), &token); err != nil {
				t.Fatal(err)
			}
			h.connect(w, url, token.Secret)
			if h.settle != nil {
				h.settle(w)
			}
			f := w.openHTTP(url, token.Secret)
			x := &hostScenario{mcpHost: h, world: w, f: f, session: sessions.NewID(), remote: true}
			x.nobodyThere()
			x.userAsked()
			x.cancelled()
			f.close()
			x.serverKilled(url)
			w.t.Cleanup(func() { // its principal is not that of the world's own end
				last := w.openHTTP(url, token.Secret)
				defer last.close()
				call[sessions.CloseResult](last, "session_close", args{"session_id": x.session})
			})
		})
	}
}

// serverKilled: the server dies under a call, and the model makes it again when there is a next one at its address.
func (x *hostScenario) serverKilled(url string) {
	x.t.Helper()
	prompt := held("seven")
	again := x.send(prompt, args{"command_id": "seven"})
	r := x.attended(x.world)
	r.prompt(r, x.script(x.t, again))
	x.working(r, prompt)
	before := len(r.failed)
	x.killHost()
	r.end()
	if len(r.failed) != before+1 {
		x.t.Errorf("%s: the call under which the server died ended with %q, %s", x.name, r.failed, r.results)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	next := exec.Command(self(x.t), "host", "run", "--http", address)
	next.Env = x.env
	if err := next.Start(); err != nil {
		x.t.Fatal(err)
	}
	go func() { _ = next.Wait() }() // ends with the world, which stops it
	await(x.t, "the next host", func() bool { _, _, status := x.verb("host", "status"); return status == 0 })
	x.release("seven")
	r.turn(x.script(x.t, again))
	r.close()
	if sent := resultOf[sessions.SendResult](r, 0); sent.Command.State != sessions.CommandCompleted || sent.Text != directive.Words(5) {
		x.t.Errorf("%s: made again: %+v, %q; failed %q", x.name, sent.Command, sent.Text, r.failed)
	}
	x.given(prompt, 1)
}
