package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// 130 open waits hold up nothing: pings, lists, short calls and cancels are answered in no time.
func TestOpenWaitsHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOpenWaits()
		c := start(t, w)
		const open = 130
		for i := range open {
			c.call(jsonOf(i), "session_wait", `{"wait_seconds":40}`, "")
		}
		before := time.Now()
		c.line(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		ok(t, c.answer(`"p"`), "ping")
		c.line(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
		ok(t, c.answer(`"l"`), "tools/list")
		c.call(`"s"`, "session_send", `{"session_id":"s","text":"x"}`, "")
		ok(t, c.answer(`"s"`), "session_send")
		for i := range open {
			c.cancel(jsonOf(i))
		}
		for range open {
			<-w.ended
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
		c.quiet()
	})
}

// 1,000 and more progress notifications: every one before the answer of its call, and rising.
func TestProgressComesBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &fake{wait: waitTheirTime})
		const calls, each = 125, 8 // the ninth falls on the answer: it comes before it or not at all
		for i := range calls {
			c.call(jsonOf(i), "session_wait", `{"wait_seconds":45}`, fmt.Sprintf(`{"progressToken":%d}`, i))
		}
		time.Sleep(49 * time.Second)
		if err := c.end(); err != nil {
			t.Error(err)
		}
		last, answered, notes := map[string]int{}, map[string]bool{}, 0
		for _, m := range c.rest() {
			if m.Method == "" {
				answered[string(m.ID)] = true
				continue
			}
			var p struct {
				Token    json.RawMessage `json:"progressToken"`
				Progress int             `json:"progress"`
			}
			if json.Unmarshal(m.Params, &p) != nil || m.Method != "notifications/progress" {
				t.Fatalf("unexpected %s", m.line)
			}
			token := string(p.Token)
			if answered[token] || p.Progress <= last[token] {
				t.Errorf("progress %d of %s after %d, answered %t", p.Progress, token, last[token], answered[token])
			}
			last[token] = p.Progress
			notes++
		}
		if len(answered) != calls || notes < calls*each {
			t.Errorf("%d answers, %d notifications", len(answered), notes)
		}
	})
}

// A burst of notifications that a call writes itself precedes its answer too, through a client that reads slowly.
func TestBurstOfNotificationsComesBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 1000
		f := &fake{}
		s := New(f, Options{})
		f.runners = func(ctx context.Context, _ sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
			client, _ := sessionOf(ctx)
			for i := range burst {
				if err := client.Notify(ctx, "notifications/progress", map[string]int{"progressToken": 1, "progress": i}); err != nil {
					t.Error(err)
				}
			}
			return sessions.RunnerListResult{}, nil
		}
		c := startSilent(t, s)
		c.call("1", "runner_list", "", "")
		synctest.Wait()
		go c.read()
		ok(t, c.answer("1"), "runner_list")
		if len(c.seen) != burst {
			t.Errorf("%d notifications before the answer", len(c.seen))
		}
	})
}
