package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// web drives an endpoint over connections in memory, so that it can be used inside a synctest bubble.
type web struct {
	t        *testing.T
	endpoint *Endpoint
	client   *http.Client
	session  string // the header of every request; "": none
	version  string
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// startWeb serves a server. The client has no session yet.
func startWeb(t *testing.T, s *Server) *web {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	e := s.HTTP()
	h := &http.Server{Handler: e}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = h.Serve(p)
	}()
	w := &web{t: t, endpoint: e, client: &http.Client{Transport: &http.Transport{DialContext: p.dial, DisableCompression: true}}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		e.Close()
		h.Close()
		<-served
	})
	return w
}

// greeted is a client with a session, of a version and with capabilities.
func greeted(t *testing.T, s *Server, version, capabilities string) *web {
	t.Helper()
	return startWeb(t, s).greet(version, capabilities)
}

// greet makes another client of the same endpoint.
func (w *web) greet(version, capabilities string) *web {
	w.t.Helper()
	c := *w
	c.session, c.version = "", ""
	a := c.post(strings.Replace(strings.Replace(initialize, "2025-11-25", version, 1), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	c.session, c.version = a.Header.Get("Mcp-Session-Id"), version
	if ok(c.t, a.message(), "initialize"); c.session == "" {
		c.t.Fatal("no session")
	}
	c.accepted(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return &c
}

// reply is an HTTP response.
type reply struct {
	*http.Response
	t      *testing.T
	events *bufio.Reader
	leave  context.CancelFunc
}

// do makes a request. Its stream ends with the test, or when it is left.
func (w *web) do(method, body string, headers ...string) *reply {
	w.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	w.t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, method, "http://pipe/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.version != "" {
		r.Header.Set("Mcp-Protocol-Version", w.version)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.Body.Close() })
	return &reply{Response: a, t: w.t, events: bufio.NewReader(a.Body), leave: leave}
}

func (w *web) post(body string, headers ...string) *reply {
	w.t.Helper()
	return w.do(http.MethodPost, body, headers...)
}

// listen opens GET; after is the event that it goes on from, "": none.
func (w *web) listen(after string) *reply {
	w.t.Helper()
	var headers []string
	if after != "" {
		headers = []string{"Last-Event-ID", after}
	}
	a := w.do(http.MethodGet, "", headers...)
	if a.StatusCode != http.StatusOK {
		w.t.Fatalf("GET: %s", a.Status)
	}
	return a
}

// accepted posts what is not answered.
func (w *web) accepted(body string) {
	w.t.Helper()
	if a := w.post(body); a.StatusCode != http.StatusAccepted {
		w.t.Errorf("%s for %s", a.Status, body)
	}
}

// call posts a tools/call of a session; see client.call.
func (w *web) call(id, tool, args, meta string) *reply {
	w.t.Helper()
	p := `"name":"` + tool + `","arguments":` + args
	if meta != "" {
		p += `,"_meta":` + meta
	}
	return w.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + p + `}}`)
}

func (w *web) request(id, method, params string) received {
	w.t.Helper()
	return w.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`).message()
}

// message is the one message of a response in JSON.
func (a *reply) message() received {
	a.t.Helper()
	body, err := io.ReadAll(a.Body)
	var m received
	if err != nil || a.Header.Get("Content-Type") != "application/json" || json.Unmarshal(body, &m) != nil {
		a.t.Fatalf("%s, %v: %.300s", a.Status, err, body)
	}
	m.line = string(body)
	return m
}

// event is a server-sent event.
type event struct {
	id, data string
	received
}

// next is the next event of a stream; false at its end. Comments are passed over.
func (a *reply) next() (e event, ok bool) {
	a.t.Helper()
	if kind := a.Header.Get("Content-Type"); kind != "text/event-stream" {
		a.t.Fatalf("%s %s is no stream of events", a.Status, kind)
	}
	seen := false
	for {
		line, err := a.events.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			e.id = value
		case "data":
			e.data, seen = value, true
		case "":
			if !seen {
				continue // after a comment
			}
			if e.data != "" && json.Unmarshal([]byte(e.data), &e.received) != nil {
				a.t.Fatalf("no message: %q", e.data)
			}
			e.line = e.data
			return e, true
		}
	}
}

// told is the next message of a stream.
func (a *reply) told(what string) event {
	a.t.Helper()
	for {
		e, ok := a.next()
		if !ok {
			a.t.Fatalf("the stream ended without %s", what)
		}
		if e.data != "" {
			return e
		}
	}
}

// over fails when a message follows.
func (a *reply) over() {
	a.t.Helper()
	for {
		switch e, ok := a.next(); {
		case !ok:
			return
		case e.data != "":
			a.t.Errorf("unexpected %q", e.data)
		}
	}
}
