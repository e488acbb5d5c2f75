package host

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// line is the bridge's end of a connection to a tender.
type line struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	done chan error // what serve returned
}

// serves lets the session's tender speak to a bridge that greets as said.
func (s *session) serves(hello bridge.Hello) *line {
	s.r.t.Helper()
	if s.t.sentIn == 0 { // what a bridge has it was given, by this journal
		s.r.tx(func(tx *journal.Tx) error {
			g, err := tx.GetGeneration(s.generation)
			s.t.sentIn = min(hello.LastIn, uint64(g.LastInput))
			return err
		})
	}
	ours, theirs := net.Pipe()
	l := &line{t: s.r.t, conn: theirs, r: bufio.NewReader(theirs), done: make(chan error, 1)}
	s.r.t.Cleanup(func() { theirs.Close() })
	if err := theirs.SetDeadline(time.Now().Add(patience)); err != nil {
		s.r.t.Fatal(err)
	}
	go func() {
		link, err := bridge.NewLink(ours, bridge.Attach{Generation: s.generation, Epoch: 1, After: s.t.lastOut})
		if err == nil {
			err = s.t.serve(link)
		}
		ours.Close()
		l.done <- err
	}()
	if f := l.next(); f.Type != "attach" {
		s.r.t.Fatalf("%+v", f)
	}
	l.say(bridge.Frame{Type: "hello"}, hello)
	return l
}

func (l *line) next() (f bridge.Frame) {
	l.t.Helper()
	text, err := l.r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func (l *line) say(f bridge.Frame, body any) {
	l.t.Helper()
	var err error
	if f.Body, err = json.Marshal(body); err != nil {
		l.t.Fatal(err)
	}
	text, err := json.Marshal(f)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.conn.Write(append(text, '\n')); err != nil {
		l.t.Fatal(err)
	}
}

// given wants the next inputs, each as number and kind.
func (l *line) given(want ...string) (bodies []json.RawMessage) {
	l.t.Helper()
	for _, w := range want {
		f := l.next()
		if got := strings.TrimSpace(string(json.RawMessage(mustJSON(l.t, f.N))) + " " + string(f.Kind)); f.Type != "in" || got != w {
			l.t.Errorf("given %s %s, want %s", f.Type, got, w)
		}
		bodies = append(bodies, f.Body)
	}
	return bodies
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// over wants serve to have returned.
func (l *line) over() error {
	l.t.Helper()
	l.conn.Close()
	select {
	case err := <-l.done:
		return err
	case <-time.After(patience):
		l.t.Fatal("serve goes on")
		return nil
	}
}

// I02: a bridge gets what it lacks, in order, and nothing twice, whatever an earlier connection gave it.
func TestI02_ABridgeGetsWhatItLacks(t *testing.T) {
	r := newRig(t)
	s := r.starting(func(a *sessions.CreateArgs) { a.Env = map[string]string{"A": "1"} })
	l := s.serves(bridge.Hello{})
	open := l.given("1 open")[0]
	var spec bridge.Spec
	if err := json.Unmarshal(open, &spec); err != nil || !strings.Contains(strings.Join(spec.Env, " "), "A=1") {
		t.Errorf("%s, %v", open, err) // the launch, not what the journal holds of it
	}
	l.say(bridge.Frame{Type: "out", N: 1, Kind: bridge.OutOpened}, sessions.Opened{NativeID: "n"})
	if f := l.next(); f.Type != "ack" || f.N != 1 {
		t.Errorf("%+v", f)
	}
	s.wants(sessions.SessionIdle) // acknowledged means durable
	if r.launched(s.generation).Argv != nil {
		t.Error("the launch is kept although the bridge has it")
	}
	s.send("c")
	l.over()

	for _, c := range []struct {
		last  uint64
		given []string
	}{{1, []string{"2 prompt"}}, {1, []string{"2 prompt"}}, {2, nil}} {
		l := s.serves(bridge.Hello{LastIn: c.last, FirstOut: 2, LastOut: 1})
		l.given(c.given...)
		l.over()
	}
	r.tx(func(tx *journal.Tx) error { return tx.MarkInput(s.generation, 2, journal.InputRefused, "in doubt") })
	l = s.serves(bridge.Hello{LastIn: 1})
	l.given("2 void")
	l.over()
}

// I11: a frame that is durable already is not journalled again, and what is acknowledged is durable.
func TestI11_FramesComeAgain(t *testing.T) {
	s := newRig(t).idle()
	l := s.serves(bridge.Hello{LastIn: 1})
	for _, n := range []uint64{1, 2, 1, 2, 3} {
		l.say(bridge.Frame{Type: "out", N: n, Kind: bridge.OutEvent}, sessions.Event{Kind: sessions.EventText, Text: string(rune('0' + n))})
	}
	l.say(bridge.Frame{Type: "got", N: 1}, nil)
	for acked := uint64(0); acked < 3; {
		f := l.next()
		if f.Type != "ack" || f.N <= acked {
			t.Fatalf("%+v after %d", f, acked)
		}
		acked = f.N
		if n := len(s.events(sessions.EventText)); uint64(n) < acked-1 {
			t.Errorf("%d texts are durable, %d frames acknowledged", n, acked)
		}
	}
	if err := l.over(); err != io.EOF {
		t.Errorf("%v", err)
	}
	var texts []string
	for _, e := range s.events(sessions.EventText) {
		texts = append(texts, e.Text)
	}
	if got := strings.Join(texts, ""); got != "23" {
		t.Errorf("texts %q", got)
	}
}

// Frames that a bridge forgot because a journal acknowledged them, which lost them since, are not passed over in silence.
func TestI11_LostFramesAreAGap(t *testing.T) {
	s := newRig(t).idle()
	l := s.serves(bridge.Hello{LastIn: 1, FirstOut: 7, LastOut: 8})
	for _, n := range []uint64{7, 8} {
		l.say(bridge.Frame{Type: "out", N: n, Kind: bridge.OutEvent}, sessions.Event{Kind: sessions.EventText, Text: "x"})
	}
	for l.next().N < 8 {
	}
	l.over()
	if got := kindsOf(s.events())[2:]; !slices.Equal(got, []sessions.EventKind{sessions.EventGap, sessions.EventText, sessions.EventText}) {
		t.Errorf("%q", got)
	}
	if g := s.events(sessions.EventGap); !strings.Contains(g[0].Gap.Reason, "frames 2 to 6") {
		t.Errorf("%+v", g[0].Gap)
	}
}

// What a launch needs is in no journal: a start that an earlier host did not finish waits for its caller, or ends.
func TestStartWithoutItsLaunch(t *testing.T) {
	r := newRig(t)
	s := r.starting()
	r.mu.Lock()
	delete(r.launches, s.generation)
	r.mu.Unlock()
	l := s.serves(bridge.Hello{})
	if _, err := s.closes(sessions.CloseArgs{WaitSeconds: ptr(0)}, func() {}); err != nil {
		t.Fatal(err)
	}
	s.t.kicked <- struct{}{}
	select {
	case err := <-l.done:
		refused(t, err, sessions.CodeIncomplete, "nothing was sent")
	case <-time.After(patience):
		t.Fatal("it still waits")
	}
	if s.t.cause == nil {
		t.Error("no cause is kept")
	}
}

// The end of the host ends what its tenders do, a write to a bridge that hangs included; the session goes on.
func TestEndOfTheHostEndsServing(t *testing.T) {
	for name, first := range map[string]func(*session, *line){
		"quiet": func(*session, *line) {},
		"a bridge that does not read": func(s *session, l *line) {
			s.send("c") // net.Pipe has no buffer: the prompt waits for its reader
			s.t.kicked <- struct{}{}
			l.conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := l.r.ReadByte(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).idle()
			l := s.serves(bridge.Hello{LastIn: 1})
			first(s, l)
			s.r.end()
			select {
			case <-l.done:
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			s.r.j.View(t.Context(), func(tx *journal.Tx) error {
				v, err := tx.GetSession("", s.id)
				if !v.State.Live() {
					t.Errorf("the session is %s", v.State)
				}
				return err
			})
		})
	}
}
