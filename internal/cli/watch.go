package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// slowPages is how many full pages in a row a watcher may be behind, once it was not.
const slowPages = 40 // 20,000 events

// watch is a session that somebody looks at: its events as they come, whom it asks, and what they type.
type watch struct {
	f     *Front
	id    string
	until string // the command whose end ends it; "": it goes on until the session ends or who watches leaves
	talks bool   // lines are prompts
	mute  bool   // nothing of what happens is printed, only questions
	deaf  bool   // it answers nothing, and what is asked is no reason to end

	welcome string // what is said below the history

	p       *transcript.Printer
	running string // the command that runs
	began   time.Time
	used    int64
	doing   string              // the tool that runs
	open    []*sessions.Request // what waits for an answer, oldest first
	ask     *asking             // what is asked at the terminal now
	own     map[string]bool     // commands whose prompts were typed here
	last    string              // the last whole message of the command that ends it
	end     *sessions.Settlement
	over    *sessions.Session // the session has ended

	caught      bool
	behind      int
	dead        bool // the last that was seen of the session is its end
	said        bool // that nothing runs that could be interrupted
	interrupted bool
	lines       chan typed
	answered    chan error
	answering   sync.WaitGroup
	deadline    <-chan time.Time
}

// Why a watch ends before what it watches.
var (
	errDetached = errors.New("detached")
	errAsks     = errors.New("needs input")
	errLimit    = errors.New("time limit")
)

// run watches until the end. The error says why it ended earlier, if it did.
func (w *watch) run(ctx context.Context, r *reader) error {
	ctx, stop := context.WithCancel(ctx)
	steps := make(chan step)
	go r.pump(ctx, steps)
	defer func() {
		stop()
		w.answering.Wait()
		for range steps { // until the pump has ended
		}
	}()
	if w.own == nil {
		w.own = map[string]bool{}
	}
	w.answered = make(chan error, 16)
	if w.talks {
		w.listen()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer w.quiet()
	started := time.Now()
	for {
		var err error
		select {
		case s := <-steps:
			err = w.take(ctx, s)
		case sig := <-w.f.signals:
			err = w.signal(ctx, sig)
		case l := <-w.lines:
			err = w.line(ctx, l)
		case e := <-w.answered:
			w.tell(e)
		case <-w.deadline:
			err = errLimit
		case <-tick.C:
			w.status(started)
		}
		switch {
		case err != nil:
			return err
		case w.end != nil || w.over != nil:
			return nil
		case w.f.talk.Err() != nil:
			return w.f.talk.Err()
		}
	}
}

func (w *watch) listen() {
	if w.lines == nil {
		w.lines = make(chan typed)
		go readLines(w.f.in, w.lines)
	}
}

// take takes a step of the pump. What is asked is looked at once everything there was is read: only then it is known
// whether it was answered meanwhile. So is whether the session has ended, and was not resumed.
func (w *watch) take(ctx context.Context, s step) error {
	if s.err != nil || s.session != nil {
		return s.err
	}
	for i := range s.evs {
		if w.see(&s.evs[i]); w.end != nil {
			return nil
		}
	}
	switch {
	case s.caught && w.dead:
		var err error
		if w.over, err = w.f.look(ctx, w.id); err != nil {
			return err
		}
		if w.over.State.Live() {
			w.over = nil
		}
		return nil
	case s.caught:
		if !w.caught && w.welcome != "" {
			w.f.aside.Line(term.Dim, w.welcome)
		}
		w.caught, w.behind = true, 0
		return w.question(ctx)
	case w.caught:
		if w.behind++; w.behind >= slowPages {
			w.f.aside.Line(term.Warn, "this reader is too slow: it is thousands of events behind, and is let go; the session goes on, see baton logs "+w.id)
			return errDetached
		}
	}
	return nil
}

// see takes one event and prints it.
func (w *watch) see(e *sessions.Event) {
	switch e.Kind {
	case sessions.EventSessionStarted:
		w.dead = false
	case sessions.EventSessionClosed, sessions.EventSessionFailed:
		w.dead = true
	case sessions.EventCommandSubmitted:
		if w.running == "" { // else it steers the one that runs
			w.running, w.began, w.used, w.doing, w.interrupted = e.Command, e.At, 0, "", false
		}
	case sessions.EventCommandSettled:
		if e.Command == w.running {
			w.running, w.doing = "", ""
		}
		if w.until != "" && e.Command == w.until {
			w.end = e.Settled
		}
	case sessions.EventText:
		if e.Final && e.Agent == "" && e.Command == w.until && e.Text != "" {
			w.last = e.Text
		}
	case sessions.EventUsage:
		if e.Usage != nil {
			w.used = transcript.Count(e.Usage)
		}
	case sessions.EventToolStarted:
		if e.Tool != nil {
			w.doing = transcript.ToolTitle(e.Tool)
		}
	case sessions.EventToolCompleted:
		w.doing = ""
	case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
		if q := e.Request; q != nil && !slices.ContainsFunc(w.open, func(o *sessions.Request) bool { return o.RequestID == q.RequestID }) {
			w.open = append(w.open, q)
		}
	case sessions.EventRequestResolved:
		w.resolved(e.Request)
	}
	switch {
	case w.mute:
	case e.Kind == sessions.EventCommandSubmitted && w.own[e.Command]:
		w.p.Known(e)
	default:
		w.p.Event(e)
	}
}

// resolved forgets a request; when it is the one that is asked, somebody else was faster.
func (w *watch) resolved(q *sessions.Request) {
	if q == nil {
		return
	}
	w.open = slices.DeleteFunc(w.open, func(o *sessions.Request) bool { return o.RequestID == q.RequestID })
	if w.ask != nil && w.ask.q.RequestID == q.RequestID {
		w.leaveAsk()
		w.f.aside.Begun() // behind the question
		w.f.aside.Fresh()
	}
}

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
	case errors.Is(l.err, errLongLine):
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

// status shows how long it takes, where nothing is typed.
func (w *watch) status(started time.Time) {
	if w.talks || w.ask != nil || w.mute && !w.f.aside.Lively() {
		return
	}
	text := "starting " + transcript.Lasted(time.Since(started))
	switch {
	case w.running != "":
		text = transcript.Lasted(time.Since(w.began))
		if used := transcript.Tokens(w.used); used != "" {
			text += ", " + used
		}
		if w.doing != "" {
			text += ", " + w.doing
		}
	case w.until == "":
		text = ""
	}
	w.f.aside.Status(text)
}
