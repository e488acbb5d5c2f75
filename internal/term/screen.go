package term

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Style is how a piece of text stands out, where there are colours.
type Style string

const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Good  Style = "32"
	Warn  Style = "33"
	Bad   Style = "31"
	Quote Style = "36"
)

// Screen writes text for a person, in order, from several goroutines. It knows whether a line is begun, and keeps a line
// of progress below everything else. The first error of its writer is kept, and nothing is written after it.
type Screen struct {
	out    io.Writer
	lively bool // control sequences are understood
	color  bool
	width  func() int

	mu     sync.Mutex
	begun  bool   // the cursor is behind some text
	wrap   wrap   // of that text
	status string // what is drawn below, "" for nothing
	err    error
}

// NewScreen is the screen of a file, with what the environment says of it: NO_COLOR (no-color.org) and TERM=dumb.
func NewScreen(f *os.File, getenv func(string) string) *Screen {
	s := &Screen{out: f, width: func() int { return 0 }}
	if IsTerminal(f) && getenv("TERM") != "dumb" && getenv("TERM") != "" {
		s.lively = true
		s.color = getenv("NO_COLOR") == ""
		s.width = func() int { return Width(f) }
	}
	return s
}

// PlainScreen writes to w as to what is no terminal.
func PlainScreen(w io.Writer) *Screen { return &Screen{out: w, width: func() int { return 0 }} }

// ColorScreen writes to w, which shows colours and nothing else of a terminal, such as a pager.
func ColorScreen(w io.Writer, color bool, width int) *Screen {
	return &Screen{out: w, color: color, width: func() int { return width }}
}

// IsTerminal tells whether a person may sit at the other end.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Width is the number of columns, 80 where the terminal does not say.
func Width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// Lively tells whether progress can be shown.
func (s *Screen) Lively() bool { return s.lively }

// Colors tells whether styles are shown.
func (s *Screen) Colors() bool { return s.color }

// Width is the number of columns, 0 for any.
func (s *Screen) Width() int { return s.width() }

// Print writes text as it is: nothing is added at its end. Where control sequences are understood its lines are broken at
// spaces.
func (s *Screen) Print(style Style, text string) {
	if text == "" {
		return
	}
	text = Clean(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if !s.begun {
		s.wrap = wrap{}
	}
	shown := text
	if s.lively {
		shown = s.wrap.put(text, s.width())
	}
	s.write(s.styled(style, shown))
	s.begun = !strings.HasSuffix(text, "\n")
}

// Line writes text on lines of its own.
func (s *Screen) Line(style Style, text string) {
	text = strings.TrimRight(Clean(text), "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if s.begun {
		s.write("\n")
	}
	s.write(s.styled(style, text) + "\n")
	s.begun = false
}

// Fresh ends the line that is begun, if any.
func (s *Screen) Fresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if s.begun {
		s.write("\n")
		s.begun = false
	}
}

// Ask writes the words before which a person types on the same line. Their own Enter ends it.
func (s *Screen) Ask(text string) {
	s.Fresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.styled(Bold, Clean(text)))
}

// Begun tells that the terminal itself, or who types, has put something behind what was written: what follows begins on a
// new line. A line of progress is overwritten all the same.
func (s *Screen) Begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = s.begun || s.status == ""
}

// Status draws the line of progress, in one write, unless a line is begun. "" takes it away.
func (s *Screen) Status(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lively || s.begun || text == s.status {
		return
	}
	if text == "" {
		s.erase()
		return
	}
	s.status = text
	// The last column stays free: some terminals begin a new line when it is used.
	s.write("\r" + s.styled(Dim, OneLine(text, max(1, s.width()-1))) + "\x1b[K")
}

// Err is the first error of the writer.
func (s *Screen) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Screen) erase() {
	if s.status != "" {
		s.status = ""
		s.write("\r\x1b[K")
	}
}

func (s *Screen) styled(style Style, text string) string {
	if !s.color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

func (s *Screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}
