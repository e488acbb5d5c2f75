package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// standing answers nobody.
var standing = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // before that no server notices that the caller has gone
	<-r.Context().Done()
})

// everyCall are calls of all kinds.
func everyCall(ctx context.Context, c *Client) map[string]func() error {
	return map[string]func() error{
		"status": func() error { _, err := c.Status(ctx); return err },
		"stop":   func() error { _, err := c.Stop(ctx); return err },
		"list":   func() error { _, err := c.List(ctx, sessions.Caller{}, sessions.ListArgs{}); return err },
		"all":    func() error { _, err := c.ListAll(ctx, sessions.ListArgs{}); return err },
		"changed": func() error {
			_, err := c.Changed(sessions.Passive(ctx), sessions.Caller{}, sessions.ChangedArgs{})
			return err
		},
		"cancel": func() error {
			_, err := c.Cancel(ctx, sessions.Caller{}, sessions.CancelArgs{Key: "the-key"})
			return err
		},
		"send": func() error {
			_, err := c.Send(ctx, sessions.Caller{}, sessions.SendArgs{CommandID: "the-key"})
			return err
		},
		"check":  func() error { _, err := c.CheckJournal(ctx); return err },
		"export": func() error { return c.ExportSession(ctx, sessions.Caller{}, "s", io.Discard) },
	}
}

// TestHostThatStandsStill: who calls a host that answers nobody is told so, which process it is, what to do with it, and how
// to find out what came of the call.
func TestHostThatStandsStill(t *testing.T) {
	path := socket(t)
	run(t, path, standing)
	c := New(Options{Socket: path})
	c.look, c.silence = time.Second/4, time.Second/4
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, ask := range everyCall(ctx, c) {
		e := sessions.AsError(ask())
		pid := os.Getpid()
		if e == nil || e.Code != sessions.CodeTimeout || !strings.Contains(e.Message, path) || !strings.Contains(e.Message, fmt.Sprint("process ", pid)) ||
			!strings.Contains(e.Action, fmt.Sprint("kill -CONT ", pid)) || e.Details["host_pid"] != pid {
			t.Errorf("%s: %#v", name, e)
			continue
		}
		if keyed := name == "cancel" || name == "send"; keyed != strings.Contains(e.Action, "the-key") {
			t.Errorf("%s: %s", name, e.Action)
		}
	}
}

// TestHostOfUnknownProcess: where nobody knows which process holds the socket, the error says what to look for.
func TestHostOfUnknownProcess(t *testing.T) {
	e := sessions.AsError(New(Options{Socket: socket(t)}).stands(context.Background(), time.Second))
	if e.Code != sessions.CodeTimeout || !errors.Is(e, errStands) || !strings.Contains(e.Action, "baton host run") || e.Details != nil {
		t.Errorf("%#v", e)
	}
}

// transport is a host without a socket, which synctest could not wait for.
type transport http.HandlerFunc

func (h transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// clientOf is a client of such a host, of a release that looks for older hosts first.
func clientOf(h http.HandlerFunc) *Client {
	c := New(Options{Version: "1.0.0"})
	c.transport, c.kept = transport(h), transport(h)
	return c
}

// TestStandstillIsToldWhileToolsMayAnswer: of a host that answers nothing, any more or from the beginning, every call ends
// in time for a tool of MCP to say it, also the first of a client, which looks for an older host, and one that waits.
func TestStandstillIsToldWhileToolsMayAnswer(t *testing.T) {
	const most = (sessions.DefaultSlice - 2) * time.Second
	for name := range everyCall(context.Background(), nil) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := clientOf(standing.ServeHTTP)
			if err := everyCall(t.Context(), c)[name](); !errors.Is(err, errStands) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took > most {
				t.Errorf("%s was told after %v", name, took)
			}
		})
	}
	for _, after := range []time.Duration{time.Second, lookEvery - 1, lookEvery, lookEvery + 1, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			api := Handler(&fake{answer: func(ctx context.Context, _ string, _ any) (any, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}, HandlerOptions{})
			c := clientOf(func(w http.ResponseWriter, r *http.Request) {
				if time.Since(began) >= after {
					standing(w, r)
				}
				api.ServeHTTP(w, r)
			})
			if _, err := c.Wait(t.Context(), anybody, sessions.WaitArgs{}); !errors.Is(err, errStands) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began.Add(after)); took > most {
				t.Errorf("what stood still after %v was told %v later", after, took)
			}
		})
	}
}

// TestSlowHostIsNoStandstill: a host that answers about itself, however late within the time for that, is waited for as long
// as a call takes, and is given the call once.
func TestSlowHostIsNoStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fake{answer: func(context.Context, string, any) (any, error) {
			time.Sleep(time.Hour) // of the test's own clock
			return nil, nil
		}}
		h := Handler(api, HandlerOptions{})
		c := clientOf(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, verbStatus) {
				time.Sleep(lookPatience - 1)
			}
			h.ServeHTTP(w, r)
		})
		if _, err := c.Send(t.Context(), anybody, sessions.SendArgs{}); err != nil {
			t.Error(err)
		}
		if n := len(api.taken()); n != 1 {
			t.Errorf("it was given %d times", n)
		}
	})
}

// TestCallsOutlastPatience: a host that answers others is waited for as long as a call takes.
func TestCallsOutlastPatience(t *testing.T) {
	path := socket(t)
	var asked atomic.Int32
	enough := make(chan struct{})
	api := Handler(&fake{}, HandlerOptions{})
	run(t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, verbStatus) {
			if asked.Add(1) == 3 {
				close(enough)
			}
		} else {
			<-enough
		}
		api.ServeHTTP(w, r)
	}))
	c := New(Options{Socket: path})
	c.look = time.Millisecond
	if _, err := c.List(context.Background(), sessions.Caller{}, sessions.ListArgs{}); err != nil {
		t.Error(err)
	}
}
