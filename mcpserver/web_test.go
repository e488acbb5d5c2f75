package mcpserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const ping = `{"jsonrpc":"2.0","id":99,"method":"ping"}`

// TestWhatTheEndpointRefuses: each refusal has its status, and says in words what is wrong.
func TestWhatTheEndpointRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWeb(t, New(&fake{}, Options{}))
		s := w.greet("2025-11-25", "{}")
		none := &web{t: t, client: w.client}
		wrong := *s
		wrong.session = "another"
		future := *s
		future.version = "2026-07-28"
		for _, tt := range []struct {
			name    string
			by      *web
			method  string
			body    string
			headers []string
			status  int
			allow   string
		}{
			{"a method", s, http.MethodPut, "{}", nil, 405, "GET, POST, DELETE"},
			{"another", s, http.MethodOptions, "", nil, 405, "GET, POST, DELETE"},
			{"a third, without a session", none, http.MethodPatch, "{}", nil, 405, "GET, POST, DELETE"},
			{"a stream since 2026-07-28", &future, http.MethodGet, "", nil, 405, "POST"},
			{"a deletion since 2026-07-28", &future, http.MethodDelete, "", nil, 405, "POST"},
			{"a put since 2026-07-28", &future, http.MethodPut, "{}", nil, 405, "POST"},
			{"a stream that is not wanted", s, http.MethodGet, "", []string{"Accept", "application/json"}, 406, ""},
			{"no JSON", s, http.MethodPost, ping, []string{"Content-Type", "text/plain"}, 415, ""},
			{"no session", none, http.MethodPost, ping, nil, 400, ""},
			{"no session, a stream", none, http.MethodGet, "", nil, 400, ""},
			{"no session, an end", none, http.MethodDelete, "", nil, 400, ""},
			{"another session", &wrong, http.MethodPost, ping, nil, 404, ""},
			{"another session, a stream", &wrong, http.MethodGet, "", nil, 404, ""},
			{"another session, an end", &wrong, http.MethodDelete, "", nil, 404, ""},
			{"a version of the past", s, http.MethodPost, ping, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400, ""},
			{"an event that is not kept", s, http.MethodGet, "", []string{"Last-Event-ID", "0.7"}, 400, ""},
			{"an event of no stream", s, http.MethodGet, "", []string{"Last-Event-ID", "77.0"}, 400, ""},
			{"an event that is none", s, http.MethodGet, "", []string{"Last-Event-ID", "x"}, 400, ""},
		} {
			a := tt.by.do(tt.method, tt.body, tt.headers...)
			if a.StatusCode != tt.status || a.Header.Get("Allow") != tt.allow {
				t.Errorf("%s: %s, allow %q", tt.name, a.Status, a.Header.Get("Allow"))
			}
		}
		for body, code := range map[string]int{"{": mcp.PARSE_ERROR, "[]": mcp.INVALID_REQUEST, `{"jsonrpc":"2.0","id":null,"method":"ping"}`: mcp.INVALID_REQUEST} {
			a := s.post(body)
			if refused(t, a.message(), code); a.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", body, a.Status)
			}
		}
		if m := s.post(ping).message(); m.Error != nil { // nothing of that ended the session
			t.Errorf("%s", m.line)
		}
		if e := s.listen("0.0"); e.StatusCode != http.StatusOK { // a stream that nothing came through yet
			t.Errorf("%s", e.Status)
		}
	})
}

// TestStatusesSince20260728: an error shows in the status, and a request needs no session.
func TestStatusesSince20260728(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWeb(t, New(&fake{}, Options{}))
		w.version = "2026-07-28"
		for _, tt := range []struct {
			method, params string
			headers        []string
			status, code   int
		}{
			{"server/discover", modern, []string{"Mcp-Method", "server/discover"}, 200, 0},
			{"ping", modern, []string{"Mcp-Method", "ping"}, 404, mcp.METHOD_NOT_FOUND},
			{"tools/call", `"name":"runner_list",` + modern, []string{"Mcp-Method", "tools/call", "Mcp-Name", "runner_list"}, 200, 0},
			{"tools/call", `"name":"runner_list",` + modern, []string{"Mcp-Method", "tools/call"}, 400, mcp.HEADER_MISMATCH},
			{"tools/list", modern, []string{"Mcp-Method", "tools/call"}, 400, mcp.HEADER_MISMATCH},
			{"tools/list", modern, nil, 400, mcp.HEADER_MISMATCH},
			{"tools/list", modern, []string{"Mcp-Method", "tools/list", "Last-Event-ID", "1.1"}, 400, mcp.HEADER_MISMATCH},
			{"tools/list", modern, []string{"Mcp-Method", "tools/list", "Mcp-Protocol-Version", "2025-11-25"}, 400, mcp.HEADER_MISMATCH},
			{"tools/list", "", []string{"Mcp-Method", "tools/list"}, 400, mcp.INVALID_PARAMS},
			{"tools/list", strings.Replace(modern, "2026-07-28", "2999-01-01", 1), []string{"Mcp-Method", "tools/list", "Mcp-Protocol-Version", "2999-01-01"}, 400, mcp.UNSUPPORTED_PROTOCOL_VERSION},
		} {
			a := w.post(`{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{`+tt.params+`}}`, tt.headers...)
			m := a.message()
			code := 0
			if m.Error != nil {
				code = m.Error.Code
			}
			if a.StatusCode != tt.status || code != tt.code || a.Header.Get("Mcp-Session-Id") != "" || string(m.ID) != "1" {
				t.Errorf("%s with %q: %s, %s", tt.method, tt.headers, a.Status, m.line)
			}
		}
		if a := w.post(`{"jsonrpc":"2.0","id":"baton-1","result":{}}`); a.StatusCode != http.StatusBadRequest {
			t.Errorf("an answer that nobody asked for: %s", a.Status)
		}
		if a := w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Method", "notifications/cancelled"); a.StatusCode != http.StatusAccepted {
			t.Errorf("%s", a.Status)
		}
	})
}

// TestTheEndOfASession ends what waits in it, and nothing else.
func TestTheEndOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := newOpenWaits()
		one := greeted(t, New(waits, Options{}), "2025-11-25", "{}")
		two := one.greet("2025-06-18", "{}")
		stream := one.listen("")
		call := one.call("1", "session_wait", `{"session_ids":["of one"]}`, "")
		other := two.call("1", "session_wait", `{"session_ids":["of two"]}`, "")
		if a := one.do(http.MethodDelete, ""); a.StatusCode != http.StatusNoContent {
			t.Errorf("%s", a.Status)
		}
		if got := <-waits.ended; !strings.HasPrefix(got, "of one") {
			t.Errorf("ended %s", got)
		}
		stream.over()
		if e := call.told("the answer"); e.failed(t).Code != "incomplete" {
			t.Errorf("%s", e.data)
		}
		for _, a := range []*reply{one.post(ping), one.do(http.MethodGet, ""), one.do(http.MethodDelete, "")} {
			if a.StatusCode != http.StatusNotFound {
				t.Errorf("%s", a.Status)
			}
		}
		ok(t, two.post(ping).message(), "the other session")
		select {
		case got := <-waits.ended:
			t.Errorf("ended %s", got)
		default:
		}
		two.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		<-waits.ended
		other.over() // what was cancelled is not answered
	})
}

// TestSilentSessions go after their time; one that is listened to is not silent.
func TestSilentSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := greeted(t, New(&fake{}, Options{}), "2025-11-25", "{}")
		two := one.greet("2025-11-25", "{}")
		stream := two.listen("")
		go func() { _, _ = io.Copy(io.Discard, stream.Body) }() // until it is left
		time.Sleep(sessionIdle - time.Minute)
		ok(t, one.post(ping).message(), "a session that is silent for less")
		time.Sleep(sessionIdle - time.Minute)
		ok(t, one.post(ping).message(), "its time begins anew")
		time.Sleep(sessionIdle + time.Minute)
		if a := one.post(ping); a.StatusCode != http.StatusNotFound {
			t.Errorf("a silent session: %s", a.Status)
		}
		ok(t, two.post(ping).message(), "a session that listens")
		stream.leave()
		synctest.Wait()
		time.Sleep(sessionIdle + time.Minute)
		if a := two.post(ping); a.StatusCode != http.StatusNotFound {
			t.Errorf("a session that listens no more: %s", a.Status)
		}
	})
}

// TestRoomForSessions: the one that was silent longest gives way, one that is used never does.
func TestRoomForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWeb(t, New(&fake{}, Options{}))
		var all []*web
		for range maxWebSessions {
			all = append(all, w.greet("2025-11-25", "{}"))
			time.Sleep(time.Second)
		}
		all[0].listen("")
		newest := w.greet("2025-11-25", "{}")
		for i, want := range map[int]int{0: 200, 1: 404, 2: 200} {
			if a := all[i].post(ping); a.StatusCode != want {
				t.Errorf("session %d: %s", i, a.Status)
			}
		}
		ok(t, newest.post(ping).message(), "the newest")
	})
}

// TestOneIDOneRequest: ids are a session's own, and one that is in flight is not given twice.
func TestOneIDOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := newOpenWaits()
		one := greeted(t, New(waits, Options{}), "2025-11-25", "{}")
		two := one.greet("2025-11-25", "{}")
		for i, w := range []*web{one, two} {
			w.call("9007199254740993", "session_wait", fmt.Sprintf(`{"session_ids":["%d"]}`, i), "")
		}
		a := one.call("9007199254740993", "session_wait", `{}`, "")
		if refused(t, a.message(), mcp.INVALID_REQUEST); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s", a.Status)
		}
		one.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"9007199254740993"}}`)
		one.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740992}}`)
		synctest.Wait()
		select {
		case got := <-waits.ended:
			t.Errorf("ended %s", got)
		default:
		}
		two.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
		if got := <-waits.ended; got != "1 true" {
			t.Errorf("ended %s", got)
		}
		// One that was cancelled before it came is not begun.
		two.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		two.call("5", "session_wait", `{}`, "").over()
	})
}
