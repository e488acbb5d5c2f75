package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/mcpserver"
	"github.com/batonmcp/baton/sessions"
)

// Format is how results are printed.
type Format string

const (
	Human Format = ""     // sentences and tables
	Wide  Format = "wide" // tables with every column
	JSON  Format = "json" // the objects of the MCP tools, one a line where they are several
	ID    Format = "id"   // ids alone, one a line
)

// Options are what a Front is made of.
type Options struct {
	API     sessions.API
	Foreign sessions.ForeignAPI // conversations that are no sessions
	Who     sessions.Caller
	Format  Format
	In      *os.File
	Out     *os.File
	Err     *os.File
	Getenv  func(string) string
	Signals <-chan os.Signal // interrupts and ends, for the commands that take them themselves
}

// Front is one command on its way.
type Front struct {
	api     sessions.API
	foreign sessions.ForeignAPI
	who     sessions.Caller
	format  Format
	in      *os.File
	out     *os.File
	// talk is what agents say and results are printed on, aside is for everything else. They are one where both are a
	// terminal, which they then share.
	talk, aside *term.Screen
	terminal    bool // a person can be asked
	principals  bool // sessions are shown with whose they are
	signals     <-chan os.Signal
	getenv      func(string) string
}

// New makes a Front.
func New(o Options) *Front {
	f := &Front{api: o.API, foreign: o.Foreign, who: o.Who, format: o.Format, in: o.In, out: o.Out, signals: o.Signals, getenv: o.Getenv}
	f.talk, f.aside = term.NewScreen(o.Out, o.Getenv), term.NewScreen(o.Err, o.Getenv)
	if term.IsTerminal(o.Out) && term.IsTerminal(o.Err) {
		f.aside = f.talk
	}
	f.terminal = term.IsTerminal(o.In) && term.IsTerminal(o.Err) && term.Foreground(o.In)
	return f
}

// print writes a result: its object, its ids, or what say says.
func (f *Front) print(result any, id string, say func()) error {
	switch f.format {
	case JSON:
		return f.object(result)
	case ID:
		if id != "" {
			f.talk.Line(term.Plain, id)
		}
	default:
		say()
	}
	return f.talk.Err()
}

// object writes a value as one line of JSON. Screens get it without any character that could command them.
func (f *Front) object(v any) error {
	raw, err := mcpserver.Encode(v)
	if err != nil {
		return err
	}
	if term.IsTerminal(f.out) {
		raw = []byte(term.CleanJSON(string(raw)))
	}
	_, err = f.out.Write(append(raw, '\n'))
	return err
}

// Fail prints an error as the tools do, for a program that reads JSON.
func (f *Front) Fail(err error) error {
	return f.object(struct {
		Error *sessions.Error `json:"error"`
	}{sessions.AsError(err)})
}

// Session finds the session that a person means: a whole id, or the beginning of one that no other session has.
func (f *Front) Session(ctx context.Context, given string) (string, error) {
	if sessions.CheckUUID("session", given) == nil {
		return given, nil
	}
	if given == "" || strings.Trim(given, "0123456789abcdef-") != "" {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "%.80q is neither a session id nor the beginning of one", given).Do("baton list --all shows them")
	}
	var found []string
	for s, err := range f.list(ctx, sessions.ListArgs{All: true}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(s.SessionID, given) {
			found = append(found, s.SessionID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", sessions.Errorf(sessions.CodeNotFound, "no session's id begins with %s", given).Do("baton list --all shows them")
	}
	return "", sessions.Errorf(sessions.CodeInvalidParams, "%d sessions have ids that begin with %s", len(found), given).Do("give more of it")
}

// Text is a prompt from the arguments, or from standard input where there are none or the only one is "-" and it is no
// terminal.
func (f *Front) Text(args []string) (string, error) {
	if len(args) > 0 && !(len(args) == 1 && args[0] == "-") {
		return strings.Join(args, " "), nil
	}
	if term.IsTerminal(f.in) {
		return "", Usage("there is no prompt; give it as an argument, or on standard input")
	}
	raw, err := io.ReadAll(io.LimitReader(f.in, sessions.MaxPromptBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > sessions.MaxPromptBytes:
		return "", sessions.Errorf(sessions.CodeLimitExceeded, "the prompt has more than %d bytes", sessions.MaxPromptBytes).Do("put it into a file of the workspace and name that")
	}
	if i := firstInvalid(raw); i >= 0 {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "the prompt is not valid UTF-8: byte %d is %#x", i+1, raw[i]).
			Do("give it in UTF-8 (iconv converts it); nothing was sent")
	}
	text := strings.TrimSuffix(string(raw), "\n")
	if text == "" {
		return "", Usage("there is no prompt; give it as an argument, or on standard input")
	}
	return text, nil
}

// firstInvalid is the place of the first byte that is no UTF-8, below 0 where all is. JSON would have it replaced, without a
// word.
func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
