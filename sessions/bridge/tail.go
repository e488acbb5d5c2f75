package bridge

import (
	"strings"
	"sync"

	"github.com/batonmcp/baton/internal/redact"
)

// maxSaid bounds what is kept, in bytes, of what an agent said beside its protocol.
const maxSaid = 8 << 10

// tail keeps the last bytes written to it, without secrets: of one that is cut in two nobody would know the rest.
type tail struct {
	max int
	set func() *redact.Set // what is looked for now

	mu     sync.Mutex
	stream *redact.Stream
	buf    []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stream == nil {
		t.stream = t.set().Stream()
	}
	t.stream.Use(t.set())
	t.buf = t.stream.Write(t.buf, string(p))
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stream == nil {
		return ""
	}
	said := string(t.buf) + t.stream.Rest()
	return printable(said[max(0, len(said)-t.max):])
}

func printable(s string) string { return strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD") }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "")
	}
	return s
}
