package bridge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// recording is what came out of a recorder, each event in short form with its time since the beginning.
type recording struct {
	mu    sync.Mutex
	began time.Time
	got   []string
}

func (r *recording) out(e sessions.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := fmt.Sprintf("%dms %s", time.Since(r.began).Milliseconds(), e.Kind)
	for _, f := range []string{e.Command, e.Turn, e.Item, e.Agent} {
		if f != "" {
			s += " " + f
		}
	}
	for name, set := range map[string]bool{"final": e.Final, "abandoned": e.Abandoned, "late": e.Late} {
		if set {
			s += " " + name
		}
	}
	r.got = append(r.got, s+" "+fmt.Sprintf("%.40q", e.Text))
}

func delta(item, text string) sessions.Event {
	return sessions.Event{Kind: sessions.EventText, Item: item, Text: text}
}

func TestRecorder(t *testing.T) {
	type at struct {
		ms int
		e  sessions.Event
	}
	with := func(e sessions.Event, change func(*sessions.Event)) sessions.Event { change(&e); return e }
	for name, c := range map[string]struct {
		in   []at
		want []string
	}{
		"one item within a window": {
			[]at{{0, delta("i", "he")}, {5, delta("i", "l")}, {19, delta("i", "lo")}},
			[]string{`20ms text i "hello"`}},
		"a window begins with what opens it": {
			[]at{{0, delta("i", "a")}, {19, delta("i", "b")}, {21, delta("i", "c")}, {40, delta("i", "d")}},
			[]string{`20ms text i "ab"`, `41ms text i "cd"`}},
		"other items": {
			[]at{{0, delta("i", "a")}, {1, delta("k", "b")}, {2, delta("i", "c")}},
			[]string{`1ms text i "a"`, `2ms text k "b"`, `22ms text i "c"`}},
		"everything that tells a text apart": {
			[]at{{0, delta("i", "a")},
				{0, with(delta("i", "b"), func(e *sessions.Event) { e.Command = "c" })},
				{0, with(delta("i", "c"), func(e *sessions.Event) { e.Command, e.Turn = "c", "t" })},
				{0, with(delta("i", "d"), func(e *sessions.Event) { e.Command, e.Turn, e.Agent = "c", "t", "sub" })},
				{0, with(delta("i", "e"), func(e *sessions.Event) { e.Kind = sessions.EventReasoning })},
				{0, with(delta("i", "f"), func(e *sessions.Event) { e.Kind = sessions.EventPlan })}},
			[]string{`0ms text i "a"`, `0ms text c i "b"`, `0ms text c t i "c"`, `0ms text c t i sub "d"`, `0ms reasoning i "e"`, `20ms plan i "f"`}},
		"other kinds keep their place": {
			[]at{{0, delta("i", "a")}, {1, sessions.Event{Kind: sessions.EventToolStarted, Item: "x"}}, {2, delta("i", "b")}},
			[]string{`1ms text i "a"`, `1ms tool.started x ""`, `22ms text i "b"`}},
		"a whole text": {
			[]at{{0, delta("i", "a")}, {1, with(delta("i", "ab"), func(e *sessions.Event) { e.Final = true })}, {2, delta("i", "c")}},
			[]string{`1ms text i "a"`, `1ms text i final "ab"`, `22ms text i "c"`}},
		"an abandoned text": {
			[]at{{0, delta("i", "a")}, {1, with(delta("i", ""), func(e *sessions.Event) { e.Abandoned = true })}},
			[]string{`1ms text i "a"`, `1ms text i abandoned ""`}},
		"a late text": {
			[]at{{0, delta("i", "a")}, {1, with(delta("i", "b"), func(e *sessions.Event) { e.Late = true })}, {2, delta("i", "c")}},
			[]string{`1ms text i "a"`, `2ms text i late "b"`, `22ms text i "c"`}},
		"a text with data of its own": {
			[]at{{0, delta("i", "a")}, {0, with(delta("i", "b"), func(e *sessions.Event) { e.Data = map[string]any{"x": 1} })},
				{0, with(delta("i", "c"), func(e *sessions.Event) { e.Raw = []byte("{}") })}},
			[]string{`0ms text i "a"`, `0ms text i "b"`, `0ms text i "c"`}},
		"a long text does not wait": {
			[]at{{0, delta("i", strings.Repeat("x", flushAt-1))}, {1, delta("i", "y")}, {2, delta("i", "z")}},
			[]string{`1ms text i "` + strings.Repeat("x", 40) + `"`, `22ms text i "z"`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := recording{began: time.Now()}
				r := newRecorder(out.out)
				for _, x := range c.in {
					time.Sleep(time.Until(out.began.Add(time.Duration(x.ms) * time.Millisecond)))
					r.Emit(x.e)
				}
				time.Sleep(time.Second)
				r.close()
				if !slices.Equal(out.got, c.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(out.got, "\n"), strings.Join(c.want, "\n"))
				}
			})
		})
	}
}

func TestRecorderStampsTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []sessions.Event
		r := newRecorder(func(e sessions.Event) { got = append(got, e) })
		began := time.Now()
		r.Emit(delta("i", "a"))
		time.Sleep(7 * time.Millisecond)
		r.Emit(delta("i", "b"))
		given := began.Add(-time.Hour)
		r.Emit(sessions.Event{Kind: sessions.EventWarning, At: given})
		r.close()
		if len(got) != 2 || !got[0].At.Equal(began) || !got[1].At.Equal(given) {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecorderFlushAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := recording{began: time.Now()}
		r := newRecorder(out.out)
		r.Flush() // nothing to do
		r.Emit(delta("i", "a"))
		r.Flush()
		r.Emit(delta("i", "b"))
		r.close()
		r.Emit(delta("i", "c")) // an adapter that says a last word
		time.Sleep(time.Second)
		if want := []string{`0ms text i "a"`, `0ms text i "b"`, `0ms text i "c"`}; !slices.Equal(out.got, want) {
			t.Errorf("got %q", out.got)
		}
	})
}

// An answer flushes while the agent streams; its text comes whole and in order whatever meets.
func TestRecorderFlushBesideEmit(t *testing.T) {
	var got strings.Builder
	r := newRecorder(func(e sessions.Event) { got.WriteString(e.Text) }) // out is called under the recorder's lock
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.Flush()
				}
			}
		})
	}
	var want strings.Builder
	for i := range 20000 {
		text := fmt.Sprintf("%d ", i)
		want.WriteString(text)
		r.Emit(delta("i", text))
	}
	close(stop)
	wg.Wait()
	r.close()
	if got.String() != want.String() {
		t.Error("the text is not what was emitted")
	}
}
