package wire

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
)

// An update of 250 bytes, as agents send them by the thousand.
const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_0123456789abcdef","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Let me look at the failing test and see what changed in the last days."}}}}` + "\n"

// repeated gives one line n times.
type repeated struct {
	line string
	n    int
	off  int
}

func (r *repeated) Read(p []byte) (int, error) {
	total := 0
	for total < len(p) && r.n > 0 {
		k := copy(p[total:], r.line[r.off:])
		total += k
		if r.off += k; r.off == len(r.line) {
			r.off, r.n = 0, r.n-1
		}
	}
	if total == 0 {
		return 0, io.EOF
	}
	return total, nil
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

// BenchmarkInbox and BenchmarkByHand are to be run together: the second is the least that a reader of JSON lines does.
func BenchmarkInbox(b *testing.B) {
	b.SetBytes(int64(len(update)))
	b.ReportAllocs()
	c := New(&repeated{line: update, n: b.N}, nowhere{io.Discard}, Options{})
	n := 0
	for m := range c.Inbox() {
		if m.Method == "session/update" {
			n++
		}
	}
	c.Close()
	if n != b.N {
		b.Fatalf("%d of %d messages", n, b.N)
	}
}

func BenchmarkByHand(b *testing.B) {
	b.SetBytes(int64(len(update)))
	b.ReportAllocs()
	r := bufio.NewReaderSize(&repeated{line: update, n: b.N}, 64<<10)
	n := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			break
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(line, &m) == nil && m.Method == "session/update" {
			n++
		}
	}
	if n != b.N {
		b.Fatalf("%d of %d messages", n, b.N)
	}
}
