package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// The table is append-only: programs switch on its codes. A new code goes to the end of the list in testdata/codes.txt.
func TestErrorTable(t *testing.T) {
	b, err := os.ReadFile("testdata/codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(b))
	codes := Codes()
	if fmt.Sprint(codes) != fmt.Sprint(want) {
		t.Errorf("the table is\n%v, it was\n%v", codes, want)
	}
	seen, meanings := map[Code]bool{}, map[string]bool{}
	for _, c := range codes {
		m := c.Meaning()
		if m == "" || meanings[m] || strings.HasSuffix(m, ".") || strings.ToLower(m[:1]) != m[:1] {
			t.Errorf("%s means %q: want a sentence of its own", c, m)
		}
		if r := c.Remedy(); r == "" || strings.HasSuffix(r, ".") || strings.ToLower(r[:1]) != r[:1] {
			t.Errorf("%s is remedied by %q: want a sentence", c, r)
		}
		if seen[c] || !c.Known() || string(c) != strings.ToLower(string(c)) {
			t.Errorf("code %s is there twice, unknown or not in lower case", c)
		}
		seen[c], meanings[m] = true, true
	}
	if Code("nonsense").Known() || Code("nonsense").Meaning() != "" || Code("").Known() {
		t.Error("a code outside the table is known")
	}
}

func TestEventKindsOnlyGrow(t *testing.T) {
	b, err := os.ReadFile("testdata/kinds.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(EventKinds()), fmt.Sprint(strings.Fields(string(b))); got != want {
		t.Errorf("the kinds are\n%s, they were\n%s", got, want)
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	err := Errorf(CodeStorageFull, "journal %s: %w", "j", io.ErrShortWrite).Do("free %d bytes", 5).With("a", 1).With("b", 2)
	wrapped := fmt.Errorf("outer: %w", err)
	switch {
	case !errors.Is(wrapped, io.ErrShortWrite):
		t.Error("the cause is lost")
	case !errors.Is(wrapped, &Error{Code: CodeStorageFull}) || errors.Is(wrapped, &Error{Code: CodeBusy}):
		t.Error("it is not found by its code")
	case CodeOf(wrapped) != CodeStorageFull || AsError(wrapped) != err:
		t.Error("it is not found in its wrapping")
	case err.Error() != "storage_full: journal j: short write (free 5 bytes)":
		t.Errorf("it reads %q", err)
	}
	b, _ := json.Marshal(err)
	if want := `{"code":"storage_full","message":"journal j: short write","action":"free 5 bytes","details":{"a":1,"b":2}}`; string(b) != want {
		t.Errorf("as JSON %s", b)
	}
	// Refining an error leaves the one it was made of alone: sentinels are shared.
	base := Errorf(CodeBusy, "x").With("k", 1)
	_ = base.Do("y").With("l", 2)
	if base.Action != "" || len(base.Details) != 1 {
		t.Errorf("the base became %+v", base)
	}
	if w := base.Whole(); w.Action != CodeBusy.Remedy() || base.Action != "" || err.Whole() != err {
		t.Errorf("whole, it became %+v of %+v", w, base)
	}
	if CodeOf(nil) != "" || AsError(nil) != nil || CodeOf(io.EOF) != CodeInternal || AsError(io.EOF).Message != "EOF" || !errors.Is(AsError(io.EOF), io.EOF) {
		t.Error("errors outside the table are internal, with their text")
	}
}
