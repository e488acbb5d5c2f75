package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

func TestStatuses(t *testing.T) {
	live := &sessions.Session{SessionID: "s", State: sessions.SessionRunning}
	asking := &sessions.Session{SessionID: "s", State: sessions.SessionRunning, Requests: []sessions.Request{{RequestID: "r", State: sessions.RequestPending}}}
	answering := &sessions.Session{SessionID: "s", State: sessions.SessionRunning, Requests: []sessions.Request{{RequestID: "r", State: sessions.RequestAnswering}}}
	for state, want := range map[sessions.CommandState]int{sessions.CommandQueued: ExitTime, sessions.CommandSubmitted: ExitTime, sessions.CommandAccepted: ExitTime,
		sessions.CommandCompleted: ExitDone, sessions.CommandFailed: ExitFailed, sessions.CommandInterrupted: ExitFailed, sessions.CommandCancelUnconfirmed: ExitFailed,
		sessions.CommandCancelled: ExitFailed, sessions.CommandUnknown: ExitUnknown} {
		if got := Status(ofCommand(&sessions.Command{State: state}, live)); got != want {
			t.Errorf("a command that is %s: %d, want %d", state, got, want)
		}
	}
	if got := Status(ofCommand(&sessions.Command{State: sessions.CommandAccepted}, asking)); got != ExitInput {
		t.Errorf("a command that asks: %d", got)
	}
	if got := Status(ofCommand(&sessions.Command{State: sessions.CommandAccepted}, answering)); got != ExitTime {
		t.Errorf("a command whose request is being answered: %d", got)
	}
	for code, want := range map[sessions.Code]int{sessions.CodeInvalidParams: ExitUsage, sessions.CodeNotFound: ExitMissing, sessions.CodeOutcomeUnknown: ExitUnknown,
		sessions.CodeTimeout: ExitTime, sessions.CodeBusy: ExitFailed, sessions.CodeInternal: ExitFailed} {
		if got := Status(fmt.Errorf("wrapped: %w", sessions.Errorf(code, "x"))); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
	if Status(nil) != ExitDone || Status(errors.New("x")) != ExitFailed || Status(Usage("x")) != ExitUsage {
		t.Error("statuses of plain errors")
	}
	unknown := &sessions.Session{State: sessions.SessionFailed, Last: &sessions.Command{State: sessions.CommandUnknown}}
	if got := Status(ofSession(unknown)); got != ExitUnknown {
		t.Errorf("a session whose command is unknown: %d", got)
	}
	unknown.Last.Acked = true
	if got := Status(ofSession(unknown)); got != ExitFailed {
		t.Errorf("a session whose unknown command is acknowledged: %d", got)
	}
}

// The worst of several ends is the one that a script has to act on first.
func TestWorse(t *testing.T) {
	var worst error
	for _, status := range []int{ExitDone, ExitFailed, ExitDone, ExitUnknown, ExitTime, ExitInput, ExitFailed} {
		worst = worse(worst, &Ended{Status: status})
	}
	if Status(worst) != ExitInput {
		t.Errorf("%d", Status(worst))
	}
}

// Who has no terminal is told, for every kind of request, what to type.
func TestHowToAnswer(t *testing.T) {
	for want, q := range map[string]sessions.Request{
		"--approve  or  --deny": {Kind: sessions.RequestApproval},
		"--answer a=ANSWER --answer b=ANSWER  or  --deny\n    a is any text\n    b is x (Ex), y": {Kind: sessions.RequestQuestion, Questions: []sessions.Question{{ID: "a"},
			{ID: "b", Options: []sessions.QuestionOption{{ID: "x", Label: "Ex"}, {ID: "y", Label: "y"}}}}},
		"--form JSON": {Kind: sessions.RequestQuestion, Schema: []byte(`{}`)},
	} {
		if got := howToAnswer("s", &q); !strings.Contains(got, want) || !strings.Contains(got, "baton respond s ") {
			t.Errorf("%q", got)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "10m": now.Add(-10 * time.Minute), "2026-01-31T12:00:00Z": time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		"2026-01-31": time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local)} {
		if got, err := ParseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "10"} {
		if _, err := ParseSince(text, now); Status(err) != ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestShorten(t *testing.T) {
	ids := []string{"aaaaaaaa-1000-4000-8000-000000000000", "aaaaaaaa-1100-4000-8000-000000000000", "bbbbbbbb-1000-4000-8000-000000000000"}
	shorten(ids)
	if ids[0] != "aaaaaaaa-10" || ids[1] != "aaaaaaaa-11" || ids[2] != "bbbbbbbb-10" {
		t.Errorf("%v", ids)
	}
}

// A prompt from a file or a pipe that JSON could not carry is refused, and the place of the fault is said.
func TestTextIsUTF8(t *testing.T) {
	for text, want := range map[string]string{"caf\xe9 au lait": "byte 4 is 0xe9", "half \xf0\x9f": "byte 6", "\xff\xfeh\x00": "byte 1", "whole é \U0001F600 \uFFFD": ""} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
		out.Close()
		f := &Front{in: in}
		got, err := f.Text(nil)
		in.Close()
		if want == "" && (err != nil || got != text) || want != "" && (Status(err) != ExitUsage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
