package term

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// lively is a screen as a terminal of 20 columns has it.
func lively(color bool) (*Screen, *strings.Builder) {
	var b strings.Builder
	return &Screen{out: &b, lively: true, color: color, width: func() int { return 20 }}, &b
}

func TestScreenLines(t *testing.T) {
	var b strings.Builder
	s := PlainScreen(&b)
	s.Print(Bold, "begun")
	s.Line(Bad, "a line\n\n")
	s.Print(Plain, "whole\n")
	s.Fresh()
	s.Print(Plain, "")
	s.Print(Plain, "open\x1b[2J")
	s.Fresh()
	s.Fresh()
	s.Status("never shown")
	if want := "begun\na line\nwhole\nopen␛[2J\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// The line of progress is erased before anything else is written, drawn once for a text, cut to the width, and never put
// behind text that is begun.
func TestScreenStatus(t *testing.T) {
	s, b := lively(false)
	s.Status("1s")
	s.Status("1s")
	s.Line(Plain, "said")
	s.Print(Plain, "begun")
	s.Status("2s")
	s.Fresh()
	s.Status(strings.Repeat("long ", 10))
	s.Status("")
	s.Status("")
	if want := "\r1s\x1b[K" + "\r\x1b[K" + "said\n" + "begun" + "\n" + "\rlong long long lon…\x1b[K" + "\r\x1b[K"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// What the terminal echoes behind a text does not stay on the line of what follows; a line of progress is written over.
func TestScreenBegun(t *testing.T) {
	s, b := lively(false)
	s.Ask("yes? ")
	s.Begun()
	s.Line(Plain, "answered elsewhere")
	s.Status("1s")
	s.Begun()
	s.Line(Plain, "interrupted")
	if want := "yes? \nanswered elsewhere\n\r1s\x1b[K\r\x1b[Kinterrupted\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestScreenColors(t *testing.T) {
	s, b := lively(true)
	s.Line(Bad, "red")
	s.Line(Plain, "plain")
	if want := "\x1b[31mred\x1b[0m\nplain\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestScreenKeepsItsError(t *testing.T) {
	broken := errors.New("broken")
	s := PlainScreen(failing{broken})
	s.Line(Plain, "x")
	s.Line(Plain, "y")
	if !errors.Is(s.Err(), broken) {
		t.Errorf("%v", s.Err())
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A file is no terminal, whatever TERM says.
func TestFileIsNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := NewScreen(f, func(string) string { return "xterm" })
	if s.Lively() || s.Colors() || s.Width() != 0 || Foreground(f) || Echo(f, false) == nil {
		t.Error("a file is taken for a terminal")
	}
}

func TestPage(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	long := strings.Repeat("a long line of a long text\n", 100_000)
	for pager, want := range map[string]string{"cat": long, "head -n 1": "a long line of a long text\n", "false": "", "exit 3": ""} {
		t.Setenv("PAGER", pager)
		if err := out.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		if err := Page(t.Context(), out, func(w io.Writer) error {
			_, err := w.Write([]byte(long))
			return err
		}); err != nil {
			t.Errorf("%s: %v", pager, err)
		}
		if got, err := os.ReadFile(out.Name()); err != nil || string(got) != want {
			t.Errorf("%s shows %d bytes, want %d (%v)", pager, len(got), len(want), err)
		}
	}
}
