package cli

import (
	"context"
	"errors"
	"slices"
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
		lines := w.lines
		if w.talks && !w.caught { // what was said before is shown first, also to who has nothing more to say
			lines = nil
		}
		var err error
		select {
		case s := <-steps:
			err = w.take(ctx, s)
		case sig := <-w.f.signals:
			err = w.signal(ctx, sig)
		case l := <-lines:
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
		if err := w.paused(ctx); err != nil {
			return err
		}
		return w.question(ctx)
	case w.caught:
		if w.behind++; w.behind >= slowPages {
			w.f.aside.Line(term.Warn, "this reader is too slow: it is thousands of events behind, and is let go; the session goes on, see baton logs "+w.id)
			return errDetached
		}
	}
	return nil
}

// paused is the error of a prompt that nobody sends: it waits in a queue that only its user can let go on, as after a start
// that failed.
func (w *watch) paused(ctx context.Context) error {
	if w.until == "" || w.running != "" {
		return nil
	}
	s, err := w.f.look(ctx, w.id)
	if err != nil {
		return err
	}
	if s.State != sessions.SessionIdle || !slices.ContainsFunc(s.Queued, func(c sessions.Command) bool { return c.CommandID == w.until }) {
		return nil
	}
	return &Ended{ExitFailed, "the prompt was not sent, its queue is paused: baton resume --run-queue " + w.id + " sends it, baton cancel " + w.id + " " + w.until + " takes it back"}
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
