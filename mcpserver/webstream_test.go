package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// TestProgressOverHTTP: it comes on the stream of its call, in its order, and the answer last. Only newer clients get events
// without a message.
func TestProgressOverHTTP(t *testing.T) {
	for version, primed := range map[string]bool{"2025-03-26": false, "2025-06-18": false, "2025-11-25": true} {
		synctest.Test(t, func(t *testing.T) {
			w := greeted(t, New(&fake{wait: waitTheirTime}, Options{}), version, "{}")
			common := w.listen("")
			a := w.call("1", "session_wait", `{"wait_seconds":17}`, `{"progressToken":"p"}`)
			e, _ := a.next()
			if (e.data == "") != primed || e.id != map[bool]string{true: "2.0", false: "2.1"}[primed] {
				t.Errorf("%s: first came %q %q", version, e.id, e.data)
			}
			if primed {
				e = a.told("progress")
			}
			for n := 1; n <= 3; n++ {
				if want := fmt.Sprintf(`"progress":%d,"progressToken":"p"`, 5*n); e.Method != "notifications/progress" || !strings.Contains(e.data, want) || e.id != fmt.Sprintf("2.%d", n) {
					t.Errorf("want %s, got %s %s", want, e.id, e.data)
				}
				e = a.told("what follows")
			}
			if ok(t, e.received, "the answer"); string(e.ID) != "1" {
				t.Errorf("%s", e.data)
			}
			a.over()
			common.leave()
		})
	}
}

// TestAnAnswerAtOnce is plain JSON; one that takes long is a stream, unless the client takes none.
func TestAnAnswerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := greeted(t, New(&fake{wait: waitTheirTime}, Options{}), "2025-11-25", "{}")
		for _, tt := range []struct{ wait, accept, kind string }{
			{"1", "application/json, text/event-stream", "application/json"}, {"3", "application/json, text/event-stream", "text/event-stream"},
			{"3", "application/json", "application/json"}, {"0", "text/event-stream", "text/event-stream"}, {"1", "*/*", "application/json"}, {"40", "application/json;q=0.9", "application/json"},
		} {
			a := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{"wait_seconds":`+tt.wait+`}}}`, "Accept", tt.accept)
			if a.Header.Get("Content-Type") != tt.kind {
				t.Errorf("%+v: %s", tt, a.Header.Get("Content-Type"))
				continue
			}
			if tt.kind == "application/json" {
				ok(t, a.message(), "wait")
			} else {
				e := a.told("the answer")
				ok(t, e.received, "wait")
			}
		}
	})
}

// TestAClientWithoutStreams gets the answer of a call and nothing before it; in a session that goes to GET.
func TestAClientWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := greeted(t, New(&fake{wait: waitTheirTime}, Options{}), "2025-11-25", "{}")
		common := w.listen("")
		wait := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{"wait_seconds":7},`
		ok(t, w.post(wait+`"_meta":{"progressToken":1}}}`, "Accept", "application/json").message(), "wait")
		if e := common.told("progress"); e.Method != "notifications/progress" {
			t.Errorf("%s", e.data)
		}
		modern := strings.Replace(modern, `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
		alone := stateless(w)
		ok(t, alone.post(wait+modern+`}}`, "Accept", "application/json", "Mcp-Method", "tools/call", "Mcp-Name", "session_wait").message(), "wait")
		told := alone.post(wait+modern+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "session_wait")
		if e := told.told("progress"); e.Method != "notifications/progress" || e.id != "" {
			t.Errorf("%s", e.data)
		}
		e := told.told("the answer")
		ok(t, e.received, "wait")
		told.over()
		if a := alone.post(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},`+modern+`}}`, "Accept", "application/json", "Mcp-Method", "subscriptions/listen"); a.StatusCode != 406 {
			t.Errorf("%s", a.Status)
		}
	})
}

// TestABrokenStreamIsTakenUp: a call goes on when its connection breaks, and everything after an event can be asked for, by
// its own session alone.
func TestABrokenStreamIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := greeted(t, New(&fake{wait: waitTheirTime}, Options{}), "2025-11-25", "{}")
		other := w.greet("2025-11-25", "{}")
		a := w.call("1", "session_wait", `{"wait_seconds":22}`, `{"progressToken":1}`)
		a.next()
		first := a.told("progress")
		a.leave()
		synctest.Wait()
		time.Sleep(6 * time.Second) // it goes on without a reader
		b := w.listen(first.id)
		if e := b.told("what was missed"); e.id != "2.2" || !strings.Contains(e.data, `"progress":10`) {
			t.Errorf("%s %s", e.id, e.data)
		}
		if e := b.told("what is new"); e.id != "2.3" {
			t.Errorf("%s %s", e.id, e.data)
		}
		b.leave()
		synctest.Wait()
		time.Sleep(time.Minute) // it ends without a reader
		for range 2 {           // and can be asked for as often as it takes
			c := w.listen("2.3")
			if e := c.told("the last progress"); e.id != "2.4" {
				t.Errorf("%s %s", e.id, e.data)
			}
			if e := c.told("the answer"); string(e.ID) != "1" || e.Result == nil {
				t.Errorf("%s", e.data)
			}
			c.over()
		}
		w.listen("2.5").over()
		if a := other.do("GET", "", "Last-Event-ID", "2.3"); a.StatusCode != 400 {
			t.Errorf("another session: %s", a.Status)
		}
		for range maxKeptStreams { // what is kept is bounded
			w.call("2", "session_wait", `{"wait_seconds":3}`, "").told("the answer")
		}
		synctest.Wait()
		if a := w.do("GET", "", "Last-Event-ID", "2.3"); a.StatusCode != 400 {
			t.Errorf("a stream of long ago: %s", a.Status)
		}
	})
}

// TestKeptTogether: what the streams of all sessions keep is bounded; beyond that, what nobody reads is gone, and said to be.
func TestKeptTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := greeted(t, New(&fake{wait: waitTheirTime}, Options{}), "2025-11-25", "{}")
		kept := &w.endpoint.kept
		leave := func() string {
			a := w.call("1", "session_wait", `{"wait_seconds":22}`, `{"progressToken":1}`)
			a.next()
			first := a.told("progress")
			a.leave()
			synctest.Wait()
			time.Sleep(time.Minute)
			return first.id
		}
		id := leave()
		if kept.Load() == 0 {
			t.Error("what is kept is not counted")
		}
		kept.Add(maxKeptOfAll)
		if a := w.do("GET", "", "Last-Event-ID", leave()); a.StatusCode != 400 {
			t.Errorf("beyond the bound: %s", a.Status)
		}
		if a := w.do("GET", "", "Last-Event-ID", id); a.StatusCode != 400 {
			t.Errorf("an older one: %s", a.Status)
		}
		kept.Add(-maxKeptOfAll)
		w.listen(leave()).told("the next progress")
		if a := w.do("DELETE", ""); a.StatusCode != 204 {
			t.Error(a.Status)
		}
		if n := kept.Load(); n != 0 {
			t.Errorf("%d bytes are counted when nothing is kept", n)
		}
	})
}

// TestNewsOfResourcesOverHTTP come on GET: each of them on one connection, the newest; what nobody read comes with the next.
func TestNewsOfResourcesOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		w := greeted(t, New(b, Options{}), "2025-11-25", "{}")
		if m := w.request("1", "resources/list", ""); m.Error != nil {
			t.Fatal(m.line)
		}
		uri := `"uri":"` + sessionPrefix + sid + `"`
		ok(t, w.request("2", "resources/subscribe", uri), "subscribe")
		old := w.listen("")
		newest := w.listen("")
		change := func(to string, on *reply) string {
			t.Helper()
			b.moves <- to
			e := on.told("an update")
			if e.Method != mcp.MethodNotificationResourceUpdated || !strings.Contains(e.data, uri) {
				t.Errorf("%s", e.data)
			}
			return e.id
		}
		change("c2", newest)
		seen := change("c3", newest)
		newest.leave()
		synctest.Wait()
		change("c4", old)
		old.leave()
		synctest.Wait()
		b.moves <- "c5"
		synctest.Wait()
		again := w.listen("")
		if e := again.told("what nobody read"); e.id != "0.4" {
			t.Errorf("%s %s", e.id, e.data)
		}
		missed := w.listen(seen) // which takes over
		for _, id := range []string{"0.3", "0.4"} {
			if e := missed.told("what was missed"); e.id != id {
				t.Errorf("%s %s", e.id, e.data)
			}
		}
		// Another client's new session is news as well.
		two := w.greet("2025-06-18", "{}")
		ok(t, two.call("1", "session_create", `{"runner":"codex","cwd":"/work/app"}`, "").message(), "create")
		if e := missed.told("the news of another list"); e.Method != mcp.MethodNotificationResourcesListChanged {
			t.Errorf("%s", e.data)
		}
		ok(t, w.request("3", "resources/unsubscribe", uri), "unsubscribe")
		synctest.Wait()
		select {
		case b.moves <- "c6":
			t.Error("somebody still waits")
		default:
		}
	})
}

// TestAQuietStreamSaysThatItLives: without a message the connection still shows life.
func TestAQuietStreamSaysThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := greeted(t, New(&fake{}, Options{}), "2025-11-25", "{}").listen("")
		before := time.Now()
		if line, err := a.events.ReadString('\n'); err != nil || line != ": alive\n" || time.Since(before) != heartbeat {
			t.Errorf("%q, %v after %s", line, err, time.Since(before))
		}
	})
}

// TestAStreamThatNobodyReads keeps the newest messages, and no more than it has room for.
func TestAStreamThatNobodyReads(t *testing.T) {
	s := newStream("0", false)
	for n := range 3 * maxKeptMessages {
		s.put(fmt.Appendf(nil, "%d", n+1))
	}
	if s.holds(2*maxKeptMessages-1) || !s.holds(2*maxKeptMessages) || !s.holds(3*maxKeptMessages) || s.holds(3*maxKeptMessages+1) {
		t.Errorf("it keeps %d from %d on", len(s.kept), s.first)
	}
	large := make([]byte, maxKeptBytes/2+1)
	s.put(large)
	s.put(large)
	if len(s.kept) != 1 || s.bytes != len(large) {
		t.Errorf("it keeps %d with %d bytes", len(s.kept), s.bytes)
	}
	s.finish(answer{})
	if s.put([]byte("x")) {
		t.Error("it takes a message after its end")
	}
}

// TestAStreamOfNewsSince20260728: see TestASubscriptionStream; it ends with its connection, and others' creations are news.
func TestAStreamOfNewsSince20260728(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		w := startWeb(t, New(b, Options{}))
		w.version = "2026-07-28"
		a := w.post(`{"jsonrpc":"2.0","id":77,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["`+sessionPrefix+sid+`"]},`+modern+`}}`,
			"Mcp-Method", "subscriptions/listen")
		for _, want := range []struct {
			method string
			do     func()
		}{
			{mcp.MethodNotificationSubscriptionsAcknowledged, func() {}},
			{mcp.MethodNotificationResourceUpdated, func() { b.moves <- "c2" }},
			{mcp.MethodNotificationResourcesListChanged, func() {
				ok(t, w.post(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"session_create","arguments":{"runner":"codex","cwd":"/work/app"},`+modern+`}}`,
					"Mcp-Method", "tools/call", "Mcp-Name", "session_create").message(), "create")
			}},
		} {
			want.do()
			if e := a.told(want.method); e.Method != want.method || e.id != "" || !strings.Contains(e.data, `"io.modelcontextprotocol/subscriptionId":77`) {
				t.Errorf("%s: %s %s", want.method, e.id, e.data)
			}
		}
		a.leave()
		synctest.Wait()
		select {
		case b.moves <- "c3":
			t.Error("somebody still waits")
		default:
		}
	})
}

// TestAClientThatIsGone: since 2026-07-28 the end of the connection is the end of the wait.
func TestAClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := newOpenWaits()
		w := startWeb(t, New(waits, Options{}))
		w.version = "2026-07-28"
		a := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{"session_ids":["a"]},`+modern+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "session_wait")
		a.leave()
		if got := <-waits.ended; !strings.HasPrefix(got, "a ") {
			t.Errorf("ended %s", got)
		}
	})
}

// TestTheEndOfTheEndpoint ends every wait and every stream, and lets nobody in.
func TestTheEndOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 2)
		api := &fake{wait: func(ctx context.Context, _ sessions.WaitArgs) (sessions.WaitResult, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return sessions.WaitResult{}, context.Cause(ctx)
		}}
		w := greeted(t, New(api, Options{}), "2025-11-25", "{}")
		stream := w.listen("")
		w.call("1", "session_wait", `{}`, "")
		since := stateless(w)
		since.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_wait","arguments":{},`+modern+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "session_wait")
		w.endpoint.Close()
		stream.over()
		for range 2 {
			if err := <-causes; err != errStopped {
				t.Errorf("a wait ended by %v", err)
			}
		}
		if a := stateless(w).post(initialize, "Mcp-Protocol-Version", ""); a.StatusCode != 503 {
			t.Errorf("%s", a.Status)
		}
	})
}

// stateless is a client of the same endpoint since 2026-07-28.
func stateless(w *web) *web {
	c := *w
	c.session, c.version = "", "2026-07-28"
	return &c
}
