package sessions

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const someSession = "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11"

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Int64Min(0).Draw(t, "seq")
		c := EncodeCursor(someSession, seq)
		if got, err := DecodeCursor(someSession, c); got != seq || err != nil {
			t.Fatalf("%d came back as %d, %v", seq, got, err)
		}
	})
	if seq, err := DecodeCursor(someSession, ""); seq != 0 || err != nil {
		t.Errorf("no cursor: %d, %v", seq, err)
	}
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]string{
		"of another session": EncodeCursor("0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a12", 5),
		"text":               "abc!",
		"a number":           "17",
		"another version":    raw("2:" + someSession + ":5"),
		"no number":          raw("1:" + someSession + ":x"),
		"negative":           raw("1:" + someSession + ":-1"),
		"too large":          raw("1:" + someSession + ":9223372036854775808"),
		"more parts":         raw("1:" + someSession + ":5:6"),
		"padded":             EncodeCursor(someSession, 5) + "=",
		"cut":                EncodeCursor(someSession, 5)[:20],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeCursor(someSession, c)
			if e := AsError(err); e == nil || e.Code != CodeCursorInvalid || !strings.Contains(e.Action, someSession) {
				t.Errorf("got %v", err)
			}
		})
	}
	long := strings.Repeat("A", 100_000)
	if _, err := DecodeCursor(someSession, long); err == nil || len(err.Error()) > 1000 {
		t.Error("a long cursor is repeated in its refusal")
	}
}

// SB-03: ids that would be path parts, or that a person cannot tell apart, are refused by one rule.
func TestIDs(t *testing.T) {
	bad := map[string]string{"empty": "", "dot": ".", "parent": "..", "path": "../x", "slash": "a/b", "backslash": `a\b`, "long": strings.Repeat("a", 300),
		"device": "CON", "NUL": "a\x00b", "newline": "a\nb", "upper case": strings.ToUpper(someSession), "braces": "{" + someSession + "}",
		"URN": "urn:uuid:" + someSession, "no dashes": strings.ReplaceAll(someSession, "-", ""), "space": someSession + " "}
	for name, id := range bad {
		if err := CheckUUID("session_id", id); CodeOf(err) != CodeInvalidParams || !strings.Contains(err.Error(), "session_id") || len(err.Error()) > 400 {
			t.Errorf("%s as a UUID: %v", name, err)
		}
	}
	for _, id := range []string{someSession, NewID(), NewSessionID(), DerivedID("session", "p", "k")} {
		if err := CheckUUID("session_id", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, name := range []string{"empty", "NUL", "newline", "long", "space"} {
		if err := CheckName("command_id", bad[name]); CodeOf(err) != CodeInvalidParams || !strings.Contains(err.Error(), "command_id") {
			t.Errorf("%s as a name: %v", name, err)
		}
	}
	for _, id := range []string{"é", "a\u00a0b", "a\x7f"} {
		if err := CheckName("key", id); CodeOf(err) != CodeInvalidParams {
			t.Errorf("%q as a name: %v", id, err)
		}
	}
	if a, b := NewSessionID(), NewSessionID(); a[:8] == b[:8] {
		t.Errorf("%s and %s begin alike", a, b)
	}
	// Names are compared byte for byte and never become paths.
	for _, id := range []string{"A", "a", "..", "a/b", "CON", "turn:1#2", strings.Repeat("a", 128)} {
		if err := CheckName("command_id", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestDerivedIDsAreOfTheirKey(t *testing.T) {
	a := DerivedID("session", "p", "k")
	for _, b := range []string{DerivedID("command", "p", "k"), DerivedID("session", "q", "k"), DerivedID("session", "p", "l")} {
		if a == b {
			t.Errorf("%s stands for two keys", a)
		}
	}
	if a != DerivedID("session", "p", "k") {
		t.Error("a key has two ids")
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[NewID()] = true
	}
	if len(seen) != 1000 {
		t.Error("an id came twice")
	}
}
