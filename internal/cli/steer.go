package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// question asks for the oldest answer that is waited for. Who has no terminal is never asked.
func (w *watch) question(ctx context.Context) error {
	if len(w.open) == 0 || w.ask != nil || w.deaf {
		return nil
	}
	s, err := w.f.look(ctx, w.id)
	if err != nil {
		return err
	}
	// A policy or somebody else may be on the way with an answer.
	w.open = slices.DeleteFunc(w.open, func(o *sessions.Request) bool {
		return !slices.ContainsFunc(s.Requests, func(q sessions.Request) bool {
			return q.RequestID == o.RequestID && q.State == sessions.RequestPending
		})
	})
	switch {
	case len(w.open) == 0:
		return nil
	case !w.f.terminal:
		return errAsks
	}
	if w.mute {
		for _, l := range transcript.RequestLines(w.open[0]) {
			w.f.aside.Line(term.Warn, l)
		}
	}
	if w.lines == nil || !w.talks {
		term.Discard(w.f.in) // typed before the question was seen
	}
	w.listen()
	w.ask = newAsking(w.open[0])
	w.prompt()
	return nil
}

func (w *watch) prompt() {
	w.f.aside.Ask(w.ask.prompt())
	if w.ask.secret() {
		_ = term.Echo(w.f.in, false) // then it is seen, and answered all the same
	}
}

// leaveAsk ends asking, answered or not.
func (w *watch) leaveAsk() {
	if w.ask != nil && w.ask.secret() {
		_ = term.Echo(w.f.in, true)
	}
	w.ask = nil
}

// quiet leaves the terminal as it was.
func (w *watch) quiet() {
	w.leaveAsk()
	w.f.aside.Status("")
	w.f.talk.Fresh()
	w.f.aside.Fresh()
}

// line takes what was typed: an answer where one is waited for, else a prompt.
func (w *watch) line(ctx context.Context, l typed) error {
	switch {
	case errors.Is(l.err, errUntaken):
		w.f.aside.Line(term.Bad, "! "+l.err.Error())
		return nil
	case l.err != nil:
		w.lines = nil
		if !errors.Is(l.err, io.EOF) {
			w.f.aside.Line(term.Warn, "! standard input: "+l.err.Error())
		}
		switch {
		case w.talks:
			return errDetached
		case w.ask != nil:
			return errAsks // nobody is there who could answer
		}
		return nil
	case w.ask != nil && w.talks && strings.HasPrefix(l.text, ":"):
		if err := w.typed(ctx, l.text); err != nil || w.ask == nil {
			return err
		}
		w.prompt()
		return nil
	case w.ask != nil:
		return w.answer(ctx, l.text)
	case w.talks:
		return w.typed(ctx, l.text)
	}
	w.f.aside.Line(term.Dim, "(nothing is asked now)")
	return nil
}

func (w *watch) answer(ctx context.Context, text string) error {
	if w.ask.secret() {
		_ = term.Echo(w.f.in, true)
		w.f.aside.Line(term.Plain, "")
	}
	a, wrong := w.ask.take(text)
	switch {
	case wrong != "":
		w.f.aside.Line(term.Warn, "! "+wrong)
		w.prompt()
		return nil
	case a == nil:
		w.prompt()
		return nil
	}
	w.open = slices.DeleteFunc(w.open, func(o *sessions.Request) bool { return o.RequestID == a.RequestID })
	w.ask = nil
	w.answering.Add(1)
	w.aside(func() error {
		defer w.answering.Done()
		_, err := w.f.api.Respond(context.WithoutCancel(ctx), w.f.who, *a) // who answers and leaves has answered
		return err
	})
	return w.question(ctx)
}

// aside makes a call while everything else goes on; what is wrong with it is told.
func (w *watch) aside(call func() error) {
	go func() {
		select {
		case w.answered <- call():
		default:
		}
	}()
}

func (w *watch) tell(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.f.aside.Line(term.Bad, "! "+Spoken(sessions.AsError(err).Error()))
	}
}

// typed is a line of a person who watches: a prompt, or a command of the watch.
func (w *watch) typed(ctx context.Context, text string) error {
	word, rest, _ := strings.Cut(text, " ")
	a := sessions.SendArgs{SessionID: w.id, CommandID: sessions.NewID(), Text: text, WhenBusy: "queue"}
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case word == ":q" || word == ":detach":
		return errDetached
	case word == ":cancel":
		w.interrupt(ctx)
		return nil
	case word == ":steer" && rest != "":
		a.Text, a.WhenBusy = rest, "steer"
	case strings.HasPrefix(text, "::"):
		a.Text = text[1:]
	case strings.HasPrefix(text, ":"):
		w.f.aside.Line(term.Dim, ":steer TEXT   give the running turn something to take into account\n"+
			":cancel       interrupt the running turn, as Ctrl-C does\n"+
			":detach       leave; the session goes on, as with Ctrl-D\n"+
			"::TEXT        a prompt that begins with a colon")
		return nil
	}
	if w.f.terminal {
		w.own[a.CommandID] = true
	}
	res, err := w.f.api.Send(ctx, w.f.who, a) // in the order in which they were typed
	if err != nil {
		w.tell(err)
		return nil
	}
	if res.Command.State == sessions.CommandQueued {
		w.f.aside.Line(term.Dim, "-- queued")
		delete(w.own, a.CommandID) // it is printed when its turn comes
	}
	return nil
}

// signal takes an interrupt for the turn first, and for the watch when it comes again.
func (w *watch) signal(ctx context.Context, sig os.Signal) error {
	if w.f.terminal && sig == os.Interrupt {
		w.f.aside.Begun() // the terminal shows ^C
	}
	if sig != os.Interrupt || w.interrupted || w.deaf || w.running == "" && w.until == "" && w.said {
		return errDetached
	}
	if w.running == "" && w.until == "" {
		w.said = true
		w.f.aside.Line(term.Dim, "nothing runs; Ctrl-C again detaches")
		return nil
	}
	w.interrupt(ctx)
	return nil
}

func (w *watch) interrupt(ctx context.Context) {
	a := sessions.CancelArgs{SessionID: w.id, CommandID: w.until}
	if w.until == "" {
		a.CommandID = w.running
	}
	w.interrupted = true
	w.leaveAsk()
	w.f.aside.Line(term.Warn, "interrupting; Ctrl-C again detaches")
	w.aside(func() error {
		_, err := w.f.api.Cancel(ctx, w.f.who, a)
		return err
	})
}
