package mcpserver

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// MC-02: the token comes back as it was given, at least every 10 s; without a token nothing comes.
func TestProgressToken(t *testing.T) {
	for _, tc := range []struct {
		meta, token string
	}{
		{`{"progressToken":"p1"}`, `"p1"`},
		{`{"progressToken":0}`, `0`},
		{`{"progressToken":7}`, `7`},
		{`{"progressToken":"7"}`, `"7"`},
		{`{"progressToken":9007199254740993}`, `9007199254740993`},
		{`{"progressToken":null}`, ""},
		{`{"progressToken":{"a":1}}`, ""},
		{`{"other":1}`, ""},
		{``, ""},
	} {
		t.Run(tc.meta, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, &fake{wait: waitTheirTime})
				c.call("1", "session_wait", `{"wait_seconds":32}`, tc.meta)
				before := time.Now()
				if tc.token != "" {
					last := 0
					for since := before; ; {
						m := c.until("progress or answer", func(received) bool { return true })
						if m.Method == "" {
							c.seen = append(c.seen, m)
							break
						}
						var p struct {
							ProgressToken json.RawMessage
							Progress      int
						}
						if err := json.Unmarshal(m.Params, &p); err != nil || string(p.ProgressToken) != tc.token || p.Progress <= last {
							t.Errorf("after %d came %s", last, m.line)
						}
						if gap := time.Since(since); gap > 10*time.Second {
							t.Errorf("%s without progress", gap)
						}
						since, last = time.Now(), p.Progress
					}
					if last < 30 {
						t.Errorf("the last progress was %d", last)
					}
				}
				ok(t, c.answer("1"), "wait")
				if took := time.Since(before); took != 32*time.Second {
					t.Errorf("the wait took %s", took)
				}
				time.Sleep(time.Minute)
				c.quiet()
			})
		})
	}
}

// No progress of a cancelled call follows.
func TestCancelledCallFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpenWaits()
		c := start(t, w)
		c.call("1", "session_wait", "", `{"progressToken":1}`)
		time.Sleep(6 * time.Second)
		c.until("progress", func(m received) bool { return m.Method == "notifications/progress" })
		c.cancel("1")
		<-w.ended
		time.Sleep(time.Minute)
		c.quiet()
	})
}

// stuckClient is a client whose notifications take as long as the test wants.
type stuckClient struct {
	*session
	writing, release chan struct{}
}

func (s stuckClient) Notify(context.Context, string, any) error {
	s.writing <- struct{}{}
	<-s.release
	return nil
}

// A notification that is being written when its call ends is waited for: nothing may follow the answer.
func TestStoppedProgressHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := stuckClient{newSession(nil), make(chan struct{}), make(chan struct{})}
		ctx := New(&fake{}, Options{}).mcp.WithContext(t.Context(), client)
		stop := progress(ctx, json.RawMessage("1"), "x")
		<-client.writing
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stopped while a notification was being written")
		default:
		}
		close(client.release)
		<-stopped
	})
}

// MC-02: waits return within their time, and a wait over the limit is refused with what to do.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: waitTheirTime}
		c := start(t, f)
		for _, tc := range []struct {
			asked   string
			longest time.Duration
		}{{"0", 0}, {"20", 20 * time.Second}, {"20.0", 20 * time.Second}, {"48", 48 * time.Second}, {"50", 49 * time.Second}} {
			before := time.Now()
			c.call("1", "session_wait", `{"wait_seconds":`+tc.asked+`}`, "")
			if r := c.answer("1").tool(t); r.IsError {
				t.Errorf("a wait of %s ended with %s", tc.asked, r.Structured)
			}
			if took := time.Since(before); took > tc.longest {
				t.Errorf("a wait of %s took %s", tc.asked, took)
			}
		}
		for _, asked := range []string{"51", "120", "-1", "1e30"} {
			c.call("1", "session_wait", `{"wait_seconds":`+asked+`}`, "")
			if e := c.answer("1").failed(t); e.Code != sessions.CodeInvalidParams || e.Action == "" {
				t.Errorf("a wait of %s ended with %+v", asked, e)
			}
		}
		if n := len(f.calls()); n != 5 {
			t.Errorf("%d calls reached the API", n)
		}
	})
}
