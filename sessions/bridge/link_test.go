package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// An agent whose link was ended for what it sent often leaves by itself at once, with a status that says nothing: the
// reason is still what it sent (FR-02).
func TestEndlessLineIsTheReason(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(ctx context.Context, _ sessions.Prompt) error { return f.conn.Notify(ctx, "go", nil) }
	}, rung(sandbox.PIDNamespace))
	p := w.opened(shell("read x; /usr/bin/head -c 70000000 /dev/zero; exit 0"))
	p.prompt(2, "c")
	x, s := p.ended()
	if x == nil || !strings.Contains(x.Reason, "line too long: the limit is 67108864 bytes") || !slices.Equal(x.Running, []string{"c"}) {
		t.Errorf("exited %+v", x)
	}
	if s.Why != x.Reason {
		t.Errorf("stopped %+v", s)
	}
	w.gone()
}

// The beginning of a frame holds up none that is there whole.
func TestBufferedFrames(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	said := make(chan error, 1)
	go func() {
		_, err := readFrame(bufio.NewReader(theirs))
		for _, text := range []string{
			`{"t":"hello","b":{"protocol":1}}` + "\n" + `{"t":"out","n":1}` + "\n" + `{"t":"out","n":2}` + "\n" + `{"t":"out",`,
			`"n":3}` + "\n",
		} {
			if err == nil {
				_, err = io.WriteString(theirs, text)
			}
		}
		said <- err
	}()
	l, err := NewLink(ours, Attach{})
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 3; n++ {
		if whole := n == 1 || n == 2; l.Buffered() != whole {
			t.Errorf("before frame %d: buffered is %v", n, !whole)
		}
		if f, err := l.Recv(); err != nil || f.N != n {
			t.Fatalf("%+v, %v, want frame %d", f, err, n)
		}
	}
	if err := <-said; err != nil || l.Buffered() {
		t.Errorf("%v; at the end: buffered is %v", err, l.Buffered())
	}
}

// endOf is an agent of which nothing is known but how its link ended.
type endOf struct {
	sessions.Agent
	err error
}

func (e endOf) Err() error { return e.err }

func TestGivenUp(t *testing.T) {
	for want, err := range map[string]error{
		"its link was ended: the agent does not read its input; then ": wire.ErrWriteTimeout,
		"Codex broke its word; then ":                                  sessions.Errorf(sessions.CodeAgentProtocol, "Codex broke its word"),
		"":                                                             errors.New("read |0: file already closed"), // what its end alone does to its pipes
	} {
		if got := (&agentProcess{agent: endOf{err: err}}).givenUp(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := (&agentProcess{agent: endOf{}}).givenUp(); got != "" {
		t.Errorf("without an error: %q", got)
	}
}

// FR-01: what an agent wrote to the output of its protocol, and is none of it, is told when it ends.
func TestStrayOutputIsTold(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(ctx context.Context, _ sessions.Prompt) error { return f.conn.Notify(ctx, "go", nil) }
	})
	p := w.opened(shell("read x; echo Loaded cached credentials.; echo no model is configured; exit 3"))
	p.prompt(2, "c")
	if x, _ := p.ended(); x == nil || x.Stdout != "Loaded cached credentials.\nno model is configured" || x.Stderr != "" {
		t.Errorf("exited %+v", x)
	}
	w.gone()
}

// An agent that ends during its handshake is told with what it said, wherever it said it, and with the limit that it broke.
func TestEndDuringTheHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		script, says string
		code, given  sessions.Code
	}{
		"on its output": {"echo no module foo; exit 1", "exit status 1; it said: no module foo", sessions.CodeAgentExited, sessions.CodeAgentProtocol},
		"on both":       {"echo no module foo; echo broken >&2; exit 1", "exit status 1; it said: broken", sessions.CodeAgentExited, sessions.CodeAgentProtocol},
		"a line without end": {"/usr/bin/head -c 70000000 /dev/zero; exit 1",
			"its link was ended: line too long: the limit is 67108864 bytes; then exit status 1", sessions.CodeLimitExceeded, sessions.CodeAgentExited},
		"as its adapter says": {"/usr/bin/head -c 70000000 /dev/zero; exit 1",
			"its link was ended: line too long: the limit is 67108864 bytes; then exit status 1", sessions.CodeLimitExceeded, sessions.CodeLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(f *fake) {
				f.open = func(context.Context, sessions.OpenParams) (sessions.Opened, error) {
					<-f.done
					return sessions.Opened{}, sessions.Errorf(c.given, "the link ended")
				}
			})
			p := w.attach(1, 0)
			p.give(1, InOpen, spec(shell(c.script)))
			f := p.next()
			if f.Kind != OutFailed {
				t.Fatalf("%s: %s", f.Kind, f.Body)
			}
			if e := body[Failure](t, f).Error; e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Action == "" {
				t.Errorf("%v, want %q", e, c.says)
			}
			p.ended()
			w.gone()
		})
	}
}

// SE-02: what an agent said last is told in part alone where it is long, and of a secret that is cut in two no part is told.
func TestSecretsThatACutDivides(t *testing.T) {
	for _, stream := range []string{"1", "2"} {
		for _, part := range []int{8, len(hush) / 2, len(hush) - 1} {
			for name, script := range map[string]string{
				"end of a line":   fmt.Sprintf("printf '%s%%s and on' $GITHUB_TOKEN", strings.Repeat("x ", 150-part/2)),
				"begin of a tail": fmt.Sprintf("printf '%%s%s' $GITHUB_TOKEN", strings.Repeat(" y", (maxSaid-part)/2)),
			} {
				t.Run(fmt.Sprint(name, " of ", stream, " at ", part), func(t *testing.T) {
					w := begin(t, func(f *fake) {
						f.open = func(context.Context, sessions.OpenParams) (sessions.Opened, error) {
							<-f.done
							return sessions.Opened{}, sessions.Errorf(sessions.CodeAgentExited, "the link ended")
						}
					})
					p := w.attach(1, 0)
					p.give(1, InOpen, spec(shell(script+" >&"+stream+"; exit 3"), func(s *Spec) { s.Env = append(s.Env, "GITHUB_TOKEN="+hush) }))
					f := p.next()
					e := body[Failure](t, f).Error
					if said := fmt.Sprint(e.Details["stderr"], e.Details["stdout"]); !strings.Contains(e.Message, "it said: ") || len(said) < 200 {
						t.Errorf("%v, and it said %q", e, said)
					}
					for i := range len(hush) - 7 {
						if strings.Contains(string(f.Body), hush[i:i+8]) {
							t.Fatalf("%q is told: %s", hush[i:i+8], f.Body)
						}
					}
					p.ended()
					w.gone()
				})
			}
		}
	}
}

// PR-02: an agent that ends when it is asked, and leaves a child behind that holds its output, does not take all of its time.
func TestEndBehindAHeldOutput(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.probe = func(context.Context) (sessions.Probe, error) {
			<-f.conn.Done()
			return sessions.Probe{}, sessions.Errorf(sessions.CodeAgentExited, "the link ended")
		}
	})
	p := w.attach(1, 0)
	p.give(1, InProbe, spec(shell("/bin/sleep 600 & exit 3"), func(s *Spec) { s.HandshakeSeconds = 600 }))
	f := p.next()
	if f.Kind != OutFailed || !strings.Contains(body[Failure](t, f).Error.Message, "exit status 3") {
		t.Errorf("%s: %s", f.Kind, f.Body)
	}
	p.ended()
	w.gone()
}
