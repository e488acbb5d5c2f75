package mcpserver

import (
	"reflect"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// TestSealedRounds: a state comes back whole to the principal that it was given to, and is refused otherwise.
func TestSealedRounds(t *testing.T) {
	r := roundState{Key: "k", SessionID: sid, RequestID: rid, Asked: []string{"a"}}
	text := r.seal("local")
	if back, err := openRound(text, "local"); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v", back, err)
	}
	bad := []string{"", "x", text + "A", text[1:], text[:len(text)-1], strings.ToLower(text), roundState{}.seal("other")}
	for i := range text {
		other := "A"
		if text[i] == 'A' {
			other = "B"
		}
		bad = append(bad, text[:i]+other+text[i+1:])
	}
	for _, b := range append(bad, "") {
		if _, err := openRound(b, "local"); sessions.CodeOf(err) != sessions.CodeInvalidParams || sessions.AsError(err).Action == "" {
			t.Errorf("%q: %v", b, err)
		}
	}
	if _, err := openRound(text, "other"); err == nil {
		t.Error("another principal's")
	}
}
