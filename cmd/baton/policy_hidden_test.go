package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// What the user hides is out of every agent's sight under every sandbox, and the session says so.
func TestPolicyHidesTheUsersList(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CURSOR=baton:agent")
	outside := outsideOf(t)
	if err := os.MkdirAll(outside+"/keys", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside+"/keys/key", []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write("work/.env", "s3cret")
	config, err := os.ReadFile(w.path("baton/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("baton/config.toml", string(config)+"[sandbox]\nhidden = [\""+outside+"/keys\", \""+w.work+"/.env\", \"~/none\"]\n")
	f := w.open()
	defer f.close()
	want := []string{w.work + "/.env", outside + "/keys"}
	slices.Sort(want)
	for _, c := range []args{{"runner": "cursor"}, {"runner": "cursor", "sandbox": sessions.SandboxFullAccess}, {"runner": "codexlike"}, {"runner": "codexlike", "sandbox": sessions.SandboxFullAccess}} {
		c["cwd"], c["wait_seconds"] = w.work, 30
		s := call[sessions.CreateResult](f, "session_create", c).Session
		needPolicy(t, s)
		if got := s.Selections.Evidence.Hidden; !slices.Equal(got, want) {
			t.Errorf("%v: evidence %q, want %q", c, got, want)
		}
		if c["runner"] == "cursor" {
			f.outcomes(s.SessionID, []attempt{
				{"ls " + outside + "/keys", false}, {"cat " + outside + "/keys/key", false},
				{"test -s .env", false}, {"grep s3cret .env", false},
				{"rm -f .env", false}, {"mv .env env", false}, {"ln .env env", false}, {"echo x > file", true},
			})
		}
		call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	}
	e := refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "cursor", "cwd": outside + "/keys"})
	if !strings.Contains(e.Message, "hidden from every agent") || !strings.Contains(e.Action, "[sandbox]") {
		t.Errorf("%v", e)
	}
	out := w.baton("doctor")
	if !strings.Contains(out, outside+"/keys") || !strings.Contains(out, "not there, so not hidden") {
		t.Errorf("doctor: %s", out)
	}
}
