package appserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// watch is an Agent in use: it makes calls, and waits for what comes of them.
type watch struct {
	t     *testing.T
	agent *Agent

	mu     sync.Mutex
	events []sessions.Event
	more   chan struct{} // closed and replaced with each event
	seen   int           // how many await has looked at
}

func newWatch(t *testing.T) *watch { return &watch{t: t, more: make(chan struct{})} }

// Emit makes it the Agent's sink.
func (w *watch) Emit(e sessions.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.more)
	w.more = make(chan struct{})
}

// await goes through the events, each once, up to the first that fits.
func (w *watch) await(what string, fits func(sessions.Event) bool) sessions.Event {
	w.t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		for w.seen < len(w.events) {
			e := w.events[w.seen]
			w.seen++
			if fits(e) {
				w.mu.Unlock()
				return e
			}
		}
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
		case <-w.agent.Done():
			w.mu.Lock()
			left := w.seen < len(w.events)
			w.mu.Unlock()
			if !left {
				w.t.Fatalf("waiting for %s: the link ended: %v; events:\n%s", what, w.agent.Err(), w.told())
			}
		case <-limit:
			w.t.Fatalf("waiting for %s; events:\n%s", what, w.told())
		}
	}
}

func (w *watch) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&b, "%s %s %s %s %q", e.Kind, e.Command, e.Agent, e.Item, e.Text)
		if e.Settled != nil {
			fmt.Fprintf(&b, " %+v", *e.Settled)
		}
		if e.Tool != nil {
			fmt.Fprintf(&b, " %s %s %q", e.Tool.Name, e.Tool.Status, e.Tool.Output)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *watch) kind(k sessions.EventKind) sessions.Event {
	w.t.Helper()
	return w.await(string(k), func(e sessions.Event) bool { return e.Kind == k && e.Agent == "" })
}

func (w *watch) context() context.Context {
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(stop)
	return ctx
}

func (w *watch) open(params sessions.OpenParams) sessions.Opened {
	w.t.Helper()
	o, err := w.agent.Open(w.context(), params)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	return o
}

func (w *watch) prompt(command, text string) {
	w.t.Helper()
	w.send(sessions.Prompt{CommandID: command, Text: text})
}

func (w *watch) send(prompt sessions.Prompt) {
	w.t.Helper()
	if err := w.agent.Prompt(w.context(), prompt); err != nil {
		w.t.Fatalf("prompt %s: %v", prompt.CommandID, err)
	}
}

// settled waits for the end of a command and expects its state.
func (w *watch) settled(command string, state sessions.CommandState) *sessions.Settlement {
	w.t.Helper()
	e := w.await("the end of "+command, func(e sessions.Event) bool { return e.Kind == sessions.EventCommandSettled && e.Command == command })
	if e.Settled.State != state {
		w.t.Fatalf("command %s is %+v, want %s; events:\n%s", command, *e.Settled, state, w.told())
	}
	return e.Settled
}

// texts are the final texts of a command.
func (w *watch) texts(command string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		if e.Kind == sessions.EventText && e.Final && e.Command == command && e.Agent == "" {
			out = append(out, e.Text)
		}
	}
	return out
}
