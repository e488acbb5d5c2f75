package host

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// TestChanged: a wait for any change of the caller's sessions ends by the first, whatever it is, and by nobody else's.
func TestChanged(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	ask := func(who sessions.Caller, mark string, wait int) string {
		t.Helper()
		res, err := r.Changed(t.Context(), who, sessions.ChangedArgs{Mark: mark, WaitSeconds: ptr(wait)})
		if err != nil {
			t.Fatal(err)
		}
		return res.Mark
	}
	mark := ask(r.who, "", 20) // at once
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"an event", func() { s.text("c", "well") }},
		{"a new session", func() { r.idle() }},
		{"an end", func() { s.ends(sandbox.Confirmed) }},
		{"a deletion", func() {
			if _, err := r.Close(t.Context(), r.who, sessions.CloseArgs{SessionID: s.id, Delete: true, Key: "k"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		mark = ask(r.who, "", 0)
		next := mark
		err := within(t, func() error {
			res, err := r.Changed(t.Context(), r.who, sessions.ChangedArgs{Mark: mark, WaitSeconds: ptr(20)})
			next = res.Mark
			return err
		}, func() { r.waiting(""); c.do() })
		if err != nil || next == mark {
			t.Errorf("%s: %q, %v", c.name, next, err)
		}
	}
	other := sessions.Caller{Principal: "other"}
	theirs := ask(other, "", 0)
	r.idle()
	if got := ask(other, theirs, 0); got != theirs {
		t.Errorf("another's session changes %q to %q", theirs, got)
	}
	for name, a := range map[string]sessions.ChangedArgs{"too long": {WaitSeconds: ptr(51)}, "backwards": {WaitSeconds: ptr(-1)}} {
		if _, err := r.Changed(t.Context(), r.who, a); sessions.CodeOf(err) != sessions.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := contextEnding(t)
	defer cancel()
	if err := within(t, func() error {
		_, err := r.Changed(ctx, r.who, sessions.ChangedArgs{Mark: ask(r.who, "", 0), WaitSeconds: ptr(50)})
		return err
	}, func() { r.waiting(""); cancel() }); err == nil {
		t.Error("it outlives its caller")
	}
}

// TestWatchingKeepsNoHost: a call that only watches is not counted.
func TestWatchingKeepsNoHost(t *testing.T) {
	h := &Host{}
	for passive, want := range map[string]int64{"": 1, "1": 0} {
		before := h.busySince
		h.counting(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if got := h.calls.Load(); int64(got) != want {
				t.Errorf("passive %q: %d calls", passive, got)
			}
		})).ServeHTTP(httptest.NewRecorder(), &http.Request{Header: http.Header{"Baton-Passive": {passive}}})
		if changed := h.busySince != before; changed != (want == 1) {
			t.Errorf("passive %q: busy %t", passive, changed)
		}
	}
}
