package remote

import (
	"context"
	"errors"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// hosting serves at a path until it is stopped, as a host does.
func hosting(t *testing.T, path string, h http.Handler, changes *Changes) (stop func()) {
	t.Helper()
	l, err := local.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server, done := Server(h), make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	return sync.OnceFunc(func() {
		changes.Close()
		server.Close()
		<-done
		l.Remove()
	})
}

// asked lists, and returns what tells whether the answer is still true; nil: nothing does.
func asked(t *testing.T, c *Client) func() bool {
	t.Helper()
	ctx, lasting := sessions.WithLasting(context.Background())
	if _, err := c.List(ctx, anybody, sessions.ListArgs{}); err != nil {
		t.Fatal(err)
	}
	return lasting.Still()
}

// TestStill: an answer is true until anything may be another, and then at once.
func TestStill(t *testing.T) {
	type rig struct {
		c          *Client
		changes    *Changes
		stop       func()
		path, file string
		host       func() func()
	}
	for name, tt := range map[string]struct {
		before func(*rig) (after func()) // around the call
		then   func(*testing.T, *rig)
		lasts  bool
		still  bool
	}{
		"nothing happens":                       {lasts: true, still: true},
		"a change":                              {lasts: true, then: func(_ *testing.T, r *rig) { r.changes.Begin()() }},
		"a change may show":                     {lasts: true, then: func(t *testing.T, r *rig) { t.Cleanup(r.changes.Begin()) }},
		"a change is not over when it is asked": {before: func(r *rig) func() { return r.changes.Begin() }},
		"the host ends":                         {lasts: true, then: func(_ *testing.T, r *rig) { r.stop() }},
		"another host": {lasts: true, then: func(t *testing.T, r *rig) {
			if err := os.Remove(r.path); err != nil { // the first serves on, as one does whose lock was deleted
				t.Fatal(err)
			}
			t.Cleanup(r.host())
		}},
		"another token": {lasts: true, then: func(t *testing.T, r *rig) {
			if err := os.Remove(r.file); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			file := path + ".token"
			token, err := local.Token(file)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{changes: new(Changes), path: path, file: file}
			r.host = func() func() {
				changes := new(Changes)
				return hosting(t, path, Handler(&fake{}, HandlerOptions{Changes: changes, Token: token}), changes)
			}
			r.stop = hosting(t, path, Handler(&fake{}, HandlerOptions{Changes: r.changes, Token: token}), r.changes)
			defer r.stop()
			r.c = New(Options{Socket: path, TokenFile: file})
			after := func() {}
			if tt.before != nil {
				after = tt.before(r)
			}
			still := asked(t, r.c)
			after()
			if (still != nil) != tt.lasts {
				t.Fatalf("the answer lasts: %t", still != nil)
			}
			if tt.then != nil {
				tt.then(t, r)
			}
			if still != nil && still() != tt.still {
				t.Errorf("it is still true: %t", !tt.still)
			}
		})
	}
}

// TestNothingLasts where the caller does not ask for it, or where the host tells nobody; that host is asked for it once.
func TestNothingLasts(t *testing.T) {
	var watches atomic.Int64
	path := socket(t)
	h := Handler(&fake{}, HandlerOptions{})
	run(t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == prefix+verbWatch {
			watches.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	c := New(Options{Socket: path})
	if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); err != nil || watches.Load() != 0 {
		t.Errorf("%v, %d watches", err, watches.Load())
	}
	for range 3 {
		if asked(t, c) != nil {
			t.Error("an answer lasts of which nobody knows for how long")
		}
	}
	if watches.Load() != 1 {
		t.Errorf("%d watches were asked for", watches.Load())
	}
}

// TestNobodyIsToldThePast: whatever one front end was answered, or anybody could have seen, any other tells as well, while
// hosts come and go.
func TestNobodyIsToldThePast(t *testing.T) {
	ctx := context.Background()
	path := socket(t)
	var truth, seen atomic.Int64 // what is stored, and what somebody knows of
	api := &fake{answer: func(_ context.Context, verb string, _ any) (any, error) {
		if verb != verbList {
			return nil, nil
		}
		n := truth.Load()
		for old := seen.Load(); old < n && !seen.CompareAndSwap(old, n); old = seen.Load() {
		}
		return sessions.ListResult{Cursor: strconv.FormatInt(n, 10)}, nil
	}}
	var changes *Changes
	stop := func() {}
	next := func() {
		stop()
		changes = new(Changes)
		stop = hosting(t, path, Handler(api, HandlerOptions{Changes: changes}), changes)
	}
	next()
	clients := []*Client{New(Options{Socket: path}), New(Options{Socket: path})}
	end := make(chan struct{})
	var readers sync.WaitGroup
	var remembered atomic.Int64
	for i := range 8 {
		c := clients[i%len(clients)]
		readers.Go(func() {
			var last int64
			still := func() bool { return false }
			for {
				select {
				case <-end:
					return
				default:
				}
				least := seen.Load()
				if still() {
					remembered.Add(1)
				} else {
					ctx, lasting := sessions.WithLasting(ctx)
					r, err := c.List(ctx, anybody, sessions.ListArgs{})
					if errors.Is(err, ErrNoHost) || err != nil && sessions.AsError(err).Code != sessions.CodeInternal {
						continue // between two hosts
					}
					if err != nil {
						t.Error(err)
						return
					}
					last, _ = strconv.ParseInt(r.Cursor, 10, 64)
					if still = lasting.Still(); still == nil {
						still = func() bool { return false }
					}
				}
				if last < least {
					t.Errorf("told %d where %d was known", last, least)
					return
				}
			}
		})
	}
	for i := range int64(600) {
		over := changes.Begin()
		truth.Store(i + 1)
		over()
		seen.Store(i + 1) // its maker is answered
		if i%100 == 99 {
			next()
		}
		for was := remembered.Load(); i%10 == 0 && remembered.Load() < was+20 && !t.Failed(); {
			runtime.Gosched()
		}
	}
	close(end)
	readers.Wait()
	stop()
	if remembered.Load() == 0 {
		t.Error("nothing was ever remembered")
	}
}
