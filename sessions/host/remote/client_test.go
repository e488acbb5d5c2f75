package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// breaking is a host that breaks off its first connections, each in its own way, and then serves.
type breaking struct {
	then http.Handler
	ways []func(w http.ResponseWriter)

	mu     sync.Mutex
	bodies []string
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.bodies = append(b.bodies, string(body))
	n := len(b.bodies)
	b.mu.Unlock()
	if n <= len(b.ways) {
		b.ways[n-1](w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.then.ServeHTTP(w, r)
}

func (b *breaking) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bodies...)
}

func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func cutInTheAnswer(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"command\":")
		conn.Close()
	}
}

func cutInTheHead(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		io.WriteString(conn, "HTTP/1.1 200")
		conn.Close()
	}
}

func TestCallIsMadeAgainUnderItsKey(t *testing.T) {
	path := socket(t)
	b := &breaking{ways: []func(http.ResponseWriter){cut, cutInTheAnswer, cutInTheHead}}
	b.then = Handler(&fake{answer: func(_ context.Context, _ string, a any) (any, error) {
		return sessions.SendResult{Command: sessions.Command{CommandID: a.(sessions.SendArgs).CommandID}}, nil
	}}, HandlerOptions{})
	run(t, path, b)
	r, err := New(Options{Socket: path}).Send(context.Background(), anybody, sessions.SendArgs{SessionID: "s", Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.seen()) != 4 {
		t.Fatalf("%d attempts", len(b.seen()))
	}
	var first, again call[sessions.SendArgs]
	if err := json.Unmarshal([]byte(b.seen()[0]), &first); err != nil {
		t.Fatal(err)
	}
	if sessions.CheckUUID("key", first.Args.CommandID) != nil || first.Args.WaitSeconds != nil {
		t.Errorf("first attempt %+v", first.Args)
	}
	for _, body := range b.seen()[1:] {
		if err := json.Unmarshal([]byte(body), &again); err != nil {
			t.Fatal(err)
		}
		again.Args.WaitSeconds = nil // what remains of the wait is no part of the call's meaning
		if !reflect.DeepEqual(again, first) {
			t.Errorf("again %+v\nfirst %+v", again, first)
		}
	}
	if r.Command.CommandID != first.Args.CommandID {
		t.Errorf("answered for %q", r.Command.CommandID)
	}
}

func TestWaitIsMadeAgainForTheRest(t *testing.T) {
	path := socket(t)
	b := &breaking{ways: []func(http.ResponseWriter){cut}, then: Handler(&fake{}, HandlerOptions{})}
	run(t, path, b)
	if _, err := New(Options{Socket: path}).Wait(context.Background(), anybody, sessions.WaitArgs{}); err != nil {
		t.Fatal(err)
	}
	var again call[sessions.WaitArgs]
	if err := json.Unmarshal([]byte(b.seen()[1]), &again); err != nil {
		t.Fatal(err)
	}
	if n := again.Args.WaitSeconds; n == nil || *n > sessions.DefaultWaitSeconds || *n < sessions.DefaultWaitSeconds-10 {
		t.Errorf("again for %v", n)
	}
}

func TestLeft(t *testing.T) {
	for _, c := range []struct {
		asked     *int
		byDefault int
		spent     time.Duration
		want      int
	}{
		{seconds(20), 0, 0, 20},
		{seconds(20), 0, time.Millisecond, 20},
		{seconds(20), 0, 5 * time.Second, 15},
		{seconds(20), 0, 5*time.Second + 1, 15},
		{seconds(20), 0, 20 * time.Second, 0},
		{seconds(20), 0, time.Hour, 0},
		{seconds(0), 20, 0, 0},
		{nil, 20, 3 * time.Second, 17},
	} {
		if got := *left(c.asked, c.byDefault, c.spent); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if given(nil, time.Second) != nil {
		t.Error("a wait whose default the host knows was given one")
	}
}

// After a host that may have acted, nobody can tell, unless a host answers.
func TestGivingUpSaysWhatIsKnown(t *testing.T) {
	five := []func(http.ResponseWriter){cut, cut, cut, cut, cut, cut, cut}
	send := func(c *Client) error {
		_, err := c.Send(context.Background(), anybody, sessions.SendArgs{CommandID: "k1"})
		return err
	}
	list := func(c *Client) error {
		_, err := c.List(context.Background(), anybody, sessions.ListArgs{})
		return err
	}
	refuses := Handler(&fake{answer: func(context.Context, string, any) (any, error) {
		return nil, sessions.Errorf(sessions.CodeBusy, "it is busy")
	}}, HandlerOptions{})
	for _, c := range []struct {
		name     string
		ways     []func(http.ResponseWriter)
		then     http.Handler
		call     func(*Client) error
		want     sessions.Code
		attempts int
	}{
		{"a change", five, nil, send, sessions.CodeOutcomeUnknown, maxBroken},
		{"a question", five, nil, list, sessions.CodeInternal, maxBroken},
		{"a refusal by the next host", five[:1], refuses, send, sessions.CodeBusy, 2},
		{"no host at all afterwards", five[:1], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }), send, sessions.CodeOutcomeUnknown, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := socket(t)
			b := &breaking{ways: c.ways, then: c.then}
			run(t, path, b)
			err := c.call(New(Options{Socket: path}))
			if sessions.CodeOf(err) != c.want || len(b.seen()) != c.attempts {
				t.Errorf("after %d attempts: %v", len(b.seen()), err)
			}
			if e := sessions.AsError(err); c.want == sessions.CodeOutcomeUnknown && (e.Details["key"] != "k1" || !strings.Contains(e.Action, "k1")) {
				t.Errorf("the key is not named: %#v", e)
			}
		})
	}
}

func TestNoHost(t *testing.T) {
	path := socket(t)
	broken := errors.New("it does not start")
	wanted := sessions.Errorf(sessions.CodeInternal, "its log says so")
	for _, c := range []struct {
		name  string
		start func(context.Context) error
		is    error
		code  sessions.Code
	}{
		{"and none to start", nil, ErrNoHost, sessions.CodeNotRunning},
		{"and it does not start", func(context.Context) error { return broken }, broken, sessions.CodeInternal},
		{"and the start says why", func(context.Context) error { return wanted }, wanted, sessions.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(Options{Socket: path, Start: c.start}).Send(context.Background(), anybody, sessions.SendArgs{})
			if !errors.Is(err, c.is) || sessions.CodeOf(err) != c.code {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("and starts do not help", func(t *testing.T) {
		starts := 0
		c := New(Options{Socket: path, Patience: 3 * time.Second, Start: func(context.Context) error { starts++; return nil }})
		if _, err := c.Send(context.Background(), anybody, sessions.SendArgs{}); !errors.Is(err, ErrNoHost) || starts < 2 {
			t.Errorf("after %d starts: %v", starts, err)
		}
	})
	t.Run("and the call only watches", func(t *testing.T) {
		c := New(Options{Socket: path, Start: func(context.Context) error { t.Error("started"); return nil }})
		ctx := sessions.Passive(context.Background())
		if _, err := c.Changed(ctx, anybody, sessions.ChangedArgs{}); !errors.Is(err, ErrNoHost) || sessions.CodeOf(err) != sessions.CodeNotRunning {
			t.Errorf("%v", err)
		}
		if _, err := c.Wait(ctx, anybody, sessions.WaitArgs{}); !errors.Is(err, ErrNoHost) {
			t.Errorf("%v", err)
		}
	})
	t.Run("for status and stop none is started", func(t *testing.T) {
		c := New(Options{Socket: path, Start: func(context.Context) error { t.Error("started"); return nil }})
		if _, err := c.Status(context.Background()); !errors.Is(err, ErrNoHost) || sessions.CodeOf(err) != sessions.CodeNotRunning {
			t.Errorf("status: %v", err)
		}
		if _, err := c.Stop(context.Background()); !errors.Is(err, ErrNoHost) {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestEndOfTheContextWhileAHostStarts(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the user left")
	c := New(Options{Socket: socket(t), Start: func(ctx context.Context) error {
		cancel(why)
		<-ctx.Done()
		return context.Cause(ctx)
	}})
	_, err := c.Cancel(ctx, anybody, sessions.CancelArgs{SessionID: "s", Key: "k"})
	e := sessions.AsError(err)
	if e.Code != sessions.CodeTimeout || !strings.Contains(e.Message, why.Error()) || e.Details["key"] != "k" {
		t.Errorf("got %#v", e)
	}
}

// A key that the client makes is new for every call, one that the caller chose stays, and what would change the meaning
// of a call that the caller can repeat is left alone.
func TestKeys(t *testing.T) {
	path := socket(t)
	api := &fake{}
	run(t, path, Handler(api, HandlerOptions{}))
	c := New(Options{Socket: path})
	ctx := context.Background()
	made := func(id string) bool { return sessions.CheckUUID("key", id) == nil }
	for _, x := range []struct {
		name string
		call func() error
		ok   func(args any) bool
	}{
		{"send", func() error { _, err := c.Send(ctx, anybody, sessions.SendArgs{}); return err },
			func(a any) bool { return made(a.(sessions.SendArgs).CommandID) }},
		{"send with its own", func() error { _, err := c.Send(ctx, anybody, sessions.SendArgs{CommandID: "own"}); return err },
			func(a any) bool { return a.(sessions.SendArgs).CommandID == "own" }},
		{"create", func() error { _, err := c.Create(ctx, anybody, sessions.CreateArgs{}); return err },
			func(a any) bool {
				x := a.(sessions.CreateArgs)
				return made(x.SessionID) && x.Key == "" && x.CommandID == ""
			}},
		{"create with a prompt", func() error { _, err := c.Create(ctx, anybody, sessions.CreateArgs{Prompt: "p"}); return err },
			func(a any) bool {
				x := a.(sessions.CreateArgs)
				return made(x.SessionID) && made(x.CommandID) && x.CommandID != x.SessionID
			}},
		{"create with a prompt and its own key", func() error {
			_, err := c.Create(ctx, anybody, sessions.CreateArgs{Prompt: "p", Key: "own"})
			return err
		}, func(a any) bool {
			x := a.(sessions.CreateArgs)
			return x.SessionID == "" && x.CommandID == "" && x.Key == "own"
		}},
		{"create with a prompt and its own id", func() error {
			_, err := c.Create(ctx, anybody, sessions.CreateArgs{Prompt: "p", SessionID: "own"})
			return err
		}, func(a any) bool {
			x := a.(sessions.CreateArgs)
			return x.SessionID == "own" && x.CommandID == "" && x.Key == ""
		}},
		{"respond", func() error { _, err := c.Respond(ctx, anybody, sessions.RespondArgs{}); return err },
			func(a any) bool { return made(a.(sessions.RespondArgs).Key) }},
		{"cancel", func() error { _, err := c.Cancel(ctx, anybody, sessions.CancelArgs{}); return err },
			func(a any) bool { return made(a.(sessions.CancelArgs).Key) }},
		{"close", func() error { _, err := c.Close(ctx, anybody, sessions.CloseArgs{}); return err },
			func(a any) bool { return made(a.(sessions.CloseArgs).Key) }},
		{"resume", func() error { _, err := c.Resume(ctx, anybody, sessions.ResumeArgs{}); return err },
			func(a any) bool { return made(a.(sessions.ResumeArgs).Key) }},
		{"resume with its own", func() error { _, err := c.Resume(ctx, anybody, sessions.ResumeArgs{Key: "own"}); return err },
			func(a any) bool { return a.(sessions.ResumeArgs).Key == "own" }},
	} {
		t.Run(x.name, func(t *testing.T) {
			for range 2 {
				if err := x.call(); err != nil {
					t.Fatal(err)
				}
			}
			calls := api.taken()
			a, b := calls[len(calls)-2].args, calls[len(calls)-1].args
			if !x.ok(a) || !x.ok(b) {
				t.Errorf("got %+v\nand %+v", a, b)
			}
			if own := strings.Contains(x.name, "own"); own != reflect.DeepEqual(a, b) {
				t.Errorf("two calls: %+v\nand %+v", a, b)
			}
		})
	}
}

// otherProtocol is a host of another protocol number.
func otherProtocol(number int, stop func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, _ *http.Request) {
		stop()
		fmt.Fprintf(w, `{"protocol":%d,"pid":7}`, number)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUpgradeRequired)
		fmt.Fprintf(w, `{"error":{"code":"unsupported","message":"the running host speaks %d"},"protocol":%d}`, number, number)
	})
	return mux
}

func TestOlderHostMakesRoom(t *testing.T) {
	path := socket(t)
	asked, gone := make(chan struct{}, 10), make(chan struct{})
	stop := run(t, path, otherProtocol(Protocol-1, func() { asked <- struct{}{} }))
	go func() { // it answers the stop before it goes
		defer close(gone)
		<-asked
		stop()
	}()
	api := &fake{}
	c := New(Options{Socket: path, Start: func(context.Context) error {
		<-gone
		run(t, path, Handler(api, HandlerOptions{}))
		return nil
	}})
	if _, err := c.Send(context.Background(), anybody, sessions.SendArgs{}); err != nil {
		t.Fatal(err)
	}
	if len(api.taken()) != 1 {
		t.Errorf("%d calls", len(api.taken()))
	}
}

func TestNewerHostStays(t *testing.T) {
	path := socket(t)
	run(t, path, otherProtocol(Protocol+1, func() { t.Error("it was asked to stop") }))
	c := New(Options{Socket: path, Start: func(context.Context) error { t.Error("another was started"); return nil }})
	_, err := c.Send(context.Background(), anybody, sessions.SendArgs{})
	if sessions.CodeOf(err) != sessions.CodeUnsupported || !strings.Contains(err.Error(), fmt.Sprint("speaks ", Protocol+1)) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoHost(t *testing.T) {
	path := socket(t)
	run(t, path, http.NotFoundHandler())
	_, err := New(Options{Socket: path}).List(context.Background(), anybody, sessions.ListArgs{})
	if sessions.CodeOf(err) != sessions.CodeInternal || !strings.Contains(err.Error(), "is no host") {
		t.Errorf("got %v", err)
	}
}

// A host that was started with another runtime folder is found through its lock file.
func TestAnnouncedSocket(t *testing.T) {
	path, elsewhere := socket(t), socket(t)
	api := &fake{}
	run(t, elsewhere, Handler(api, HandlerOptions{}))
	lockFile := filepath.Join(filepath.Dir(path), "lock")
	lock, err := local.Lock(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	c := New(Options{Socket: path, Lock: lockFile})
	if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); !errors.Is(err, ErrNoHost) {
		t.Errorf("before it is announced: %v", err)
	}
	if err := lock.Announce(elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); err != nil || len(api.taken()) != 1 {
		t.Errorf("%d calls, %v", len(api.taken()), err)
	}
}

func TestTokenOfAnotherState(t *testing.T) {
	path := socket(t)
	file := filepath.Join(filepath.Dir(path), "token")
	token, err := local.Token(file)
	if err != nil {
		t.Fatal(err)
	}
	run(t, path, Handler(&fake{}, HandlerOptions{Token: token}))
	if _, err := New(Options{Socket: path, TokenFile: file}).Status(context.Background()); err != nil {
		t.Error(err)
	}
	_, err = New(Options{Socket: path, TokenFile: file + "2"}).Status(context.Background())
	if sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), "another state directory") {
		t.Errorf("got %v", err)
	}
}
