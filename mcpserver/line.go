package mcpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest message that is read, in bytes with its line end.
const MaxLine = 64 << 20

// ErrLineTooLong ends a connection: what follows in a longer line cannot be told from the next message.
var ErrLineTooLong = errors.New("line too long")

// lineReader gives the messages of an input: lines ended by LF or CRLF, a byte order mark dropped, blank ones skipped,
// and the last one even when its end is missing.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// next returns one message. The slice is the caller's.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.line()
		if text := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark)); len(text) > 0 && (err == nil || err == io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.max {
			return nil, fmt.Errorf("%w: over %d bytes", ErrLineTooLong, l.max)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
