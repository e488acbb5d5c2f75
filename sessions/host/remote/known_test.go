package remote

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// TestAnswersLast: what was asked before is answered without asking the API, until something changes.
func TestAnswersLast(t *testing.T) {
	ctx := context.Background()
	list := func(a sessions.ListArgs) func(*Client) error {
		return func(c *Client) error { _, err := c.List(ctx, anybody, a); return err }
	}
	wait := func(ids ...string) func(*Client) error {
		return func(c *Client) error {
			_, err := c.Wait(ctx, anybody, sessions.WaitArgs{SessionIDs: ids, WaitSeconds: seconds(0)})
			return err
		}
	}
	for name, tt := range map[string]struct {
		call   func(*Client) error
		result any
		err    error
		change bool // during the call
		asked  int  // in two calls
	}{
		"list":                 {call: list(sessions.ListArgs{}), result: sessions.ListResult{}, asked: 1},
		"list of a folder":     {call: list(sessions.ListArgs{Cwd: "/w"}), result: sessions.ListResult{}, asked: 2},
		"refused list":         {call: list(sessions.ListArgs{}), err: sessions.Errorf(sessions.CodeInvalidParams, "no").Do("do not"), asked: 2},
		"change in between":    {call: list(sessions.ListArgs{}), result: sessions.ListResult{}, change: true, asked: 2},
		"large list":           {call: list(sessions.ListArgs{}), result: sessions.ListResult{Cursor: strings.Repeat("x", maxKnownBytes)}, asked: 2},
		"wait":                 {call: wait("s"), result: sessions.WaitResult{Sessions: []sessions.Waited{{Text: "t"}}}, asked: 1},
		"wait that ran out":    {call: wait("s"), result: sessions.WaitResult{TimedOut: true}, asked: 2},
		"wait for any":         {call: wait(), result: sessions.WaitResult{}, asked: 2},
		"read, which is large": {call: func(c *Client) error { _, err := c.Read(ctx, anybody, sessions.ReadArgs{SessionID: "s"}); return err }, result: sessions.ReadResult{}, asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var changes Changes
			api := &fake{answer: func(context.Context, string, any) (any, error) {
				if tt.change {
					changes.Begin()()
				}
				return tt.result, tt.err
			}}
			path := socket(t)
			run(t, path, Handler(api, HandlerOptions{Changes: &changes}))
			c := New(Options{Socket: path})
			for range 2 {
				if err := tt.call(c); (err == nil) != (tt.err == nil) {
					t.Fatal(err)
				}
			}
			if n := len(api.taken()); n != tt.asked {
				t.Errorf("two calls asked the API %d times", n)
			}
			changes.Begin()()
			if err := tt.call(c); (err == nil) != (tt.err == nil) {
				t.Fatal(err)
			}
			if n := len(api.taken()); n != tt.asked+1 {
				t.Errorf("after a change the API was asked %d times", n)
			}
		})
	}
}

// TestAnswersAreOfTheirCaller: the same question of another principal is another one.
func TestAnswersAreOfTheirCaller(t *testing.T) {
	api := &fake{answer: func(context.Context, string, any) (any, error) { return sessions.ListResult{}, nil }}
	path := socket(t)
	run(t, path, Handler(api, HandlerOptions{Changes: new(Changes)}))
	c := New(Options{Socket: path})
	for range 2 {
		for _, who := range []string{"a", "b"} {
			if _, err := c.List(context.Background(), sessions.Caller{Principal: who}, sessions.ListArgs{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	calls := api.taken()
	if len(calls) != 2 || calls[0].who.Principal == calls[1].who.Principal {
		t.Errorf("the API was asked by %+v", calls)
	}
}

// TestConnections: calls share one while they follow one another; and one that was kept from a host which is gone leads to
// the next host, and is no host that did not answer.
func TestConnections(t *testing.T) {
	ctx := context.Background()
	path := socket(t)
	serve := func() (opened *atomic.Int64, stop func()) {
		l, err := local.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		opened = new(atomic.Int64)
		server := Server(Handler(&fake{}, HandlerOptions{}))
		server.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.Serve(l)
		}()
		return opened, func() {
			server.Close()
			<-done
			l.Remove()
		}
	}
	opened, stop := serve()
	c := New(Options{Socket: path})
	for range 5 {
		if _, err := c.List(ctx, anybody, sessions.ListArgs{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n >= 5 { // more than one only where the machine pauses for longer than one is kept
		t.Errorf("5 lists opened %d connections", n)
	}
	after, leave := context.WithCancel(ctx)
	if _, err := c.List(after, anybody, sessions.ListArgs{}); err != nil {
		t.Fatal(err)
	}
	leave() // the context of a call that is over has no hold of the connection that it used
	if _, err := c.List(ctx, anybody, sessions.ListArgs{}); err != nil {
		t.Fatal(err)
	}
	before := opened.Load()
	for range 5 {
		if _, err := c.Cancel(ctx, anybody, sessions.CancelArgs{SessionID: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load() - before; n >= 5 {
		t.Errorf("5 cancels opened %d connections", n)
	}
	for _, call := range []func() error{
		func() error { _, err := c.List(ctx, anybody, sessions.ListArgs{}); return err },
		func() error { _, err := c.Cancel(ctx, anybody, sessions.CancelArgs{SessionID: "s"}); return err },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := call(); sessions.CodeOf(err) != sessions.CodeNotRunning {
			t.Errorf("without a host: %v", err)
		}
		opened, stop = serve()
		if err := call(); err != nil || opened.Load() != 1 {
			t.Errorf("%v; the next host was met over %d connections", err, opened.Load())
		}
		stop()
		opened, stop = serve()
		if err := call(); err != nil || opened.Load() != 1 {
			t.Errorf("%v; the one after that was met over %d connections", err, opened.Load())
		}
	}
	stop()
}
