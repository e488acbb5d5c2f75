package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// openWaits is a fake whose waits last until their context ends, and tells which ended with which cause.
type openWaits struct {
	fake
	ended chan string
}

func newOpenWaits() *openWaits {
	w := &openWaits{ended: make(chan string, 1000)}
	w.wait = func(ctx context.Context, a sessions.WaitArgs) (sessions.WaitResult, error) {
		<-ctx.Done()
		cause := context.Cause(ctx)
		w.ended <- fmt.Sprintf("%s %t", strings.Join(a.SessionIDs, ","), errors.Is(cause, errCancelled))
		return sessions.WaitResult{}, cause
	}
	return w
}

// MC-03: a cancel ends that wait alone, which is not answered, and touches no session.
func TestCancelEndsOnlyItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpenWaits()
		c := start(t, w)
		for _, id := range []string{"5", `"5"`, "6", "9007199254740993", "9007199254740992"} {
			c.call(id, "session_wait", `{"session_ids":[`+jsonOf("of "+id)+`]}`, "")
		}
		synctest.Wait()
		for _, id := range []string{"5", "9007199254740993"} {
			c.cancel(id)
			if got := <-w.ended; got != "of "+id+" true" {
				t.Errorf("cancel of %s ended %s", id, got)
			}
		}
		c.line(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
		ok(t, c.answer("7"), "ping")
		synctest.Wait()
		if len(w.ended) > 0 {
			t.Errorf("another wait ended: %s", <-w.ended)
		}
		c.quiet()
		for _, a := range w.calls() {
			if _, isWait := a.(sessions.WaitArgs); !isWait {
				t.Errorf("the cancel called %T", a)
			}
		}
	})
}

// MC-03: a string id that is written with escapes is the same id.
func TestCancelFindsAnEscapedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpenWaits()
		c := start(t, w)
		c.call(`"é"`, "session_wait", "", "")
		c.cancel(`"\u00e9"`)
		<-w.ended
		synctest.Wait()
		c.quiet()
	})
}

// MC-03: a cancel in the line right behind its request finds it, although the call may not have started yet.
func TestCancelRightBehindItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpenWaits()
		c := start(t, w)
		for i := range 100 {
			id := jsonOf(i)
			c.raw(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"session_wait"}}` + "\n" +
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}` + "\n")
		}
		synctest.Wait()
		if n := len(w.ended); n != len(w.calls()) {
			t.Errorf("%d of %d waits ended", n, len(w.calls()))
		}
		c.quiet()
	})
}

// MC-03: a cancel that overtakes its request stops it; the memory for that is short and bounded.
func TestCancelBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f)
		c.cancel("5")
		c.call("5", "session_send", `{"session_id":"s","text":"x"}`, "")
		synctest.Wait()
		if n := len(f.calls()); n != 0 {
			t.Errorf("%d calls ran", n)
		}
		c.quiet()
		c.call("5", "runner_list", "", "")
		ok(t, c.answer("5"), "the next request of that id")

		c.cancel("6")
		time.Sleep(earlyLife)
		c.call("6", "runner_list", "", "")
		ok(t, c.answer("6"), "a request long after the stray cancel")

		for i := range maxEarly + 10 {
			c.cancel(jsonOf(fmt.Sprint("stray ", i)))
			time.Sleep(time.Millisecond)
		}
		c.call(`"stray 0"`, "runner_list", "", "")
		ok(t, c.answer(`"stray 0"`), "a request whose stray cancel was forgotten")
		c.call(jsonOf(fmt.Sprint("stray ", maxEarly+9)), "runner_list", "", "")
		synctest.Wait()
		c.quiet()
	})
}

// A cancel that crosses its answer must not swallow the next request of that id (FR-05 allows it).
func TestCancelThatCrossedItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		for range 3 {
			c.call("1", "runner_list", "", "")
			ok(t, c.answer("1"), "runner_list")
			c.cancel("1")
		}
		c.quiet()
	})
}

func TestCancelWithoutAUsableID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{})
		for _, params := range []string{`{}`, `{"requestId":null}`, `{"requestId":{}}`, `{"requestId":"unknown"}`} {
			c.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
		}
		c.line(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		c.line(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ok(t, c.answer("1"), "ping")
		c.quiet()
	})
}

// The ids that are remembered as answered are bounded.
func TestAnsweredIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls()
		for i := range 3 * maxAnswered {
			k, v := c.begin(t.Context(), fmt.Sprint(i))
			if v != begun || !c.answer(k) {
				t.Fatalf("call %d: %v", i, v)
			}
			c.done()
		}
		if n := len(c.answered) + len(c.previous); n > maxAnswered {
			t.Errorf("%d ids are remembered", n)
		}
		last := fmt.Sprint(3*maxAnswered - 1)
		c.cancel(last)
		if _, v := c.begin(t.Context(), last); v != begun {
			t.Errorf("a late cancel stopped the next request: %v", v)
		}
	})
}
