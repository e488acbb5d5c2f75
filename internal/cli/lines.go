package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
)

// maxTyped is what a terminal keeps of one line (Linux, N_TTY: 4095 bytes and the newline); it drops the rest unseen.
const maxTyped = 4095

// typed is one line of input, or why there is none.
type typed struct {
	text string
	err  error // errUntaken: this line was not taken; io.EOF and others: none follows
}

// errUntaken is wrapped by the faults of one line, after which others follow.
var (
	errUntaken  = errors.New("the line was not taken")
	errLongLine = fmt.Errorf("%w: it is too long", errUntaken)
	errNoText   = fmt.Errorf("%w: it is not valid UTF-8; nothing of it was sent", errUntaken)
)

// readLines gives the lines of f until its end. It cannot be stopped in the middle of a read and ends with the process.
func readLines(f *os.File, out chan<- typed) {
	terminal := term.IsTerminal(f)
	b := bufio.NewReaderSize(f, 64<<10)
	for {
		var line strings.Builder
		long := false
		for {
			part, err := b.ReadSlice('\n')
			if line.Len()+len(part) <= sessions.MaxPromptBytes+1 {
				line.Write(part)
			} else {
				long = true
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if rest := line.String(); rest != "" && errors.Is(err, io.EOF) && !terminal {
				if firstInvalid([]byte(rest)) >= 0 {
					out <- typed{err: errNoText}
				} else {
					out <- typed{text: rest}
				}
			}
			out <- typed{err: err}
			return
		}
		text := strings.TrimRight(line.String(), "\r\n")
		switch {
		case firstInvalid([]byte(text)) >= 0:
			out <- typed{err: errNoText}
		case long:
			out <- typed{err: fmt.Errorf("%w: more than %d bytes; nothing of it was sent", errLongLine, sessions.MaxPromptBytes)}
		case terminal && len(text) >= maxTyped:
			out <- typed{err: fmt.Errorf("%w: a terminal keeps %d bytes of one; nothing of it was sent, give long prompts by baton send on standard input", errLongLine, maxTyped)}
		default:
			out <- typed{text: text}
		}
	}
}
