package bridge

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/appserver"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// scriptedCodex is the agent's input: it answers each request of a session, and turn/start with n pieces of text.
type scriptedCodex struct {
	out *os.File
	n   int
}

const (
	benchThread = "01a23046-8334-7d91-a077-360c05be7c00"
	benchTurn   = "01a23046-93a3-7ce1-8242-d835e7816109"
	benchDelta  = `{"method":"item/agentMessage/delta","params":{"threadId":"` + benchThread + `","turnId":"` + benchTurn +
		`","itemId":"msg_hyzapl5iq4vpkq5vzqg4s4v2bm","delta":"%d.............................................................. "},"emittedAtMs":1796106257199}` + "\n"
)

func (s *scriptedCodex) Write(line []byte) (int, error) {
	method, answer := wire.String(line, "method"), ""
	switch method {
	case "initialize":
		answer = `{"userAgent":"baton/0.171.0 (Linux)"}`
	case "model/list":
		answer = `{"data":[{"id":"m","model":"m","supportedReasoningEfforts":[],"defaultReasoningEffort":"low"}]}`
	case "thread/start":
		answer = `{"thread":{"id":"` + benchThread + `"},"model":"m","cwd":"/w","approvalPolicy":"never","approvalsReviewer":"user","sandbox":{"type":"readOnly","networkAccess":false}}`
	case "turn/start":
		answer = `{"turn":{"id":"` + benchTurn + `","status":"inProgress"}}`
	case "initialized":
		return len(line), nil
	default:
		answer = `{}`
	}
	fmt.Fprintf(s.out, `{"id":%s,"result":%s}`+"\n", wire.Member(line[:len(line)-1], "id"), answer)
	if method == "turn/start" {
		go s.stream()
	}
	return len(line), nil
}

func (s *scriptedCodex) stream() {
	fmt.Fprintf(s.out, `{"method":"turn/started","params":{"threadId":%q,"turn":{"id":%q,"status":"inProgress"}}}`+"\n", benchThread, benchTurn)
	var many bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&many, benchDelta, i)
	}
	for n := s.n; n > 0; n -= 100 {
		s.out.Write(many.Bytes())
	}
	whole := strings.Repeat(strings.Repeat(".", 63)+"\n", s.n)
	item := fmt.Sprintf(`{"type":"agentMessage","id":"msg_hyzapl5iq4vpkq5vzqg4s4v2bm","text":%q,"phase":null}`, whole)
	fmt.Fprintf(s.out, `{"method":"item/completed","params":{"threadId":%q,"turnId":%q,"item":%s}}`+"\n", benchThread, benchTurn, item)
	fmt.Fprintf(s.out, `{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":"completed","items":[%s]}}}`+"\n", benchThread, benchTurn, item)
}

func (s *scriptedCodex) Close() error { return nil }

// settledSink passes on, and tells of the end of a command.
type settledSink struct {
	sessions.Sink
	settled chan struct{}
}

func (s settledSink) Emit(e sessions.Event) {
	s.Sink.Emit(e)
	if e.Kind == sessions.EventCommandSettled {
		close(s.settled)
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkUpdates is what a piece of Codex's text costs from its pipe to the frame that the host takes. Its time is mostly
// that of a shared machine; the time of the processor is what counts.
func BenchmarkUpdates(b *testing.B) {
	b.ReportAllocs()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	n := (b.N + 99) / 100 * 100
	conn := wire.New(r, &scriptedCodex{out: w, n: n}, wire.Options{})
	v := newVeil()
	v.learn(Spec{Protocol: "app-server", Env: []string{"OPENAI_API_KEY=abcdefghijkl0123456789"}})
	br := &Bridge{o: Options{maxFrame: MaxFrame}, spool: newSpool(8 << 20), veil: v}
	br.rec = newRecorder(func(e sessions.Event) { v.event(e, br.event) })
	var framed int
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for at := uint64(0); ; {
			batch := br.spool.next(at, func() bool { return false })
			if batch == nil {
				return
			}
			for _, f := range batch {
				framed += len(f)
			}
			at += uint64(len(batch))
			br.spool.ack(at)
		}
	}()
	sink := settledSink{br.rec, make(chan struct{})}
	a := appserver.New(conn, sink, appserver.Options{})
	if _, err := a.Open(b.Context(), sessions.OpenParams{Cwd: "/w", Selection: sessions.Selection{Sandbox: sessions.SandboxReadOnly}}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	began := processorTime(b)
	if err := a.Prompt(b.Context(), sessions.Prompt{CommandID: "c-1", Text: "go"}); err != nil {
		b.Fatal(err)
	}
	<-sink.settled
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-began)/float64(n), "cpu-ns/op")
	br.rec.close()
	br.spool.drained(time.Minute)
	br.spool.close()
	<-taken
	conn.Close()
	<-a.Done()
	if framed < n*65 {
		b.Errorf("%d bytes of frames for %d pieces", framed, n)
	}
}
