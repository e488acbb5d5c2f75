package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrLineTooLong ends a link whose agent sent a line over the limit.
var ErrLineTooLong = errors.New("line too long")

const readBuffer = 64 << 10

// lineReader reads lines of at most max bytes. An unlimited reader would let one unterminated line take all memory.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBuffer), max: max}
}

// next returns the next line without its LF, in memory of its own. The last line needs no LF. The error is io.EOF, the
// reader's, or ErrLineTooLong; no line comes with an error.
func (l *lineReader) next() ([]byte, error) {
	piece, err := l.r.ReadSlice('\n')
	if err == nil { // the common case: one exact allocation
		if len(piece)-1 > l.max {
			return nil, l.tooLong()
		}
		return bytes.Clone(piece[:len(piece)-1]), nil
	}
	var long []byte
	for {
		if cap(long)-len(long) < len(piece) { // doubled, but no further than the limit
			grown := make([]byte, len(long), min(2*cap(long)+2*readBuffer, l.max+readBuffer+1))
			copy(grown, long)
			long = grown
		}
		long = append(long, piece...)
		n := len(long)
		if err == nil {
			n--
		}
		if n > l.max {
			return nil, l.tooLong()
		}
		switch {
		case err == nil:
			return long[:n], nil
		case errors.Is(err, bufio.ErrBufferFull):
			piece, err = l.r.ReadSlice('\n')
		case len(long) > 0 && err == io.EOF:
			return long, nil // the next read gives io.EOF again
		default:
			return nil, err
		}
	}
}

func (l *lineReader) tooLong() error {
	return fmt.Errorf("%w: the limit is %d bytes", ErrLineTooLong, l.max)
}

var bom = []byte("\xef\xbb\xbf")

// trim takes off what peers put around a message: white space, the CR of CRLF, and byte order marks, which come before
// the first message or, where the peer opens its output anew, before any.
func trim(line []byte) []byte {
	for {
		line = bytes.Trim(line, " \t\r\n")
		if !bytes.HasPrefix(line, bom) {
			return line
		}
		line = line[len(bom):]
	}
}
