package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/internal/transcript"
	"github.com/batonmcp/baton/sessions"
)

// ListForeign prints the conversations that agents keep and that are no sessions.
func (f *Front) ListForeign(ctx context.Context, a sessions.ForeignArgs) error {
	if a.Limit < 0 {
		return Usage("--limit is %d; use a number above 0", a.Limit)
	}
	res, err := f.foreign.Foreign(ctx, f.who, a)
	if err != nil {
		return err
	}
	for _, runner := range slices.Sorted(maps.Keys(res.Problems)) {
		f.aside.Line(term.Dim, runner+": "+Spoken(res.Problems[runner]))
	}
	all := make([]*sessions.Conversation, len(res.Conversations))
	for i := range res.Conversations {
		all[i] = &res.Conversations[i]
		switch f.format {
		case JSON:
			err = f.object(res.Conversations[i])
		case ID:
			f.talk.Line(term.Plain, all[i].NativeID)
			err = f.talk.Err()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case f.format == JSON || f.format == ID:
		return nil
	case len(all) == 0:
		f.aside.Line(term.Dim, "no conversations that are not sessions of Baton's")
		return nil
	}
	f.foreignTable(all)
	f.aside.Line(term.Dim, "baton read --native ID -r RUNNER shows one, baton resume --native ID -r RUNNER makes it a session")
	return f.talk.Err()
}

func (f *Front) foreignTable(all []*sessions.Conversation) {
	now := time.Now()
	drawTable(f, all, []column[sessions.Conversation]{
		{"NATIVE ID", func(c *sessions.Conversation) string { return c.NativeID }, false},
		{"ORIGIN", func(c *sessions.Conversation) string { return c.Origin }, false},
		{"RUNNER", func(c *sessions.Conversation) string { return c.Runner }, false},
		{"UPDATED", func(c *sessions.Conversation) string {
			if c.UpdatedAt.IsZero() {
				return ""
			}
			return transcript.Lasted(now.Sub(c.UpdatedAt))
		}, false},
		{"SOURCE", func(c *sessions.Conversation) string { return c.Source }, true},
		{"MODEL", func(c *sessions.Conversation) string { return c.Model }, true},
		{"HELD BY", heldBy, false},
		{"DIRECTORY", func(c *sessions.Conversation) string { return f.dirOf(c.Cwd) }, false},
		{"TITLE", func(c *sessions.Conversation) string { return c.Title }, false},
	}, func(c *sessions.Conversation) term.Style {
		if c.HeldBy != nil {
			return term.Warn
		}
		return term.Plain
	})
}

func heldBy(c *sessions.Conversation) string {
	if c.HeldBy == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", c.HeldBy.PID, c.HeldBy.Program))
}

// ForeignLogs says what of a conversation is printed.
type ForeignLogs struct {
	sessions.ForeignReadArgs
	Events   bool // numbered events, as read does
	Raw      bool // events as JSON
	Markdown bool
	Tail     int // the last so many things that are told; below 0: all
	transcript.Options
}

// ForeignLogs prints what was said and done in a conversation that is no session, as its agent has it on record.
func (f *Front) ForeignLogs(ctx context.Context, l ForeignLogs) error {
	res, err := f.foreign.ForeignRead(ctx, f.who, l.ForeignReadArgs)
	if err != nil {
		return err
	}
	c := &res.Conversation
	if l.Markdown {
		m := transcript.NewMarkdown(cleaner{f.out}, &sessions.Session{SessionID: c.NativeID, Runner: c.Runner, Cwd: c.Cwd, Title: c.Title,
			State: sessions.OriginForeign, CreatedAt: c.CreatedAt}, l.Options)
		for i := range res.Events {
			m.Event(&res.Events[i])
		}
		return m.End()
	}
	events := res.Events
	if l.Tail >= 0 {
		events = lastTold(events, l.Tail)
	}
	if l.Raw {
		for i := range events {
			if err := f.object(events[i]); err != nil {
				return err
			}
		}
		return nil
	}
	f.aside.Line(term.Dim, fmt.Sprintf("-- foreign: conversation %s of %s in %s, no session of Baton's", c.NativeID, c.Runner, f.dirOf(c.Cwd)))
	if c.HeldBy != nil {
		f.aside.Line(term.Warn, "-- held by process "+heldBy(c)+": it may go on, and a turn that runs there is not whole here")
	}
	p := transcript.NewPrinter(f.talk, f.talk, l.Options)
	if l.Events {
		p = transcript.NewPrinter(f.talk, f.aside, l.Options)
	}
	for i := range events {
		p.Event(&events[i])
	}
	f.talk.Fresh()
	return f.talk.Err()
}

// lastTold are the events from the last n on that people are told of.
func lastTold(events []sessions.Event, n int) []sessions.Event {
	from := len(events)
	for n > 0 && from > 0 {
		if from--; told(&events[from]) {
			n--
		}
	}
	return events[from:]
}

// Adopt makes a session of a conversation.
func (f *Front) Adopt(ctx context.Context, a sessions.AdoptArgs) error {
	if a.SessionID == "" && a.Key == "" {
		a.SessionID = sessions.NewSessionID()
	}
	var res sessions.CreateResult
	for { // an agent that reads a long conversation takes its time
		var err error
		if res, err = f.foreign.Adopt(ctx, f.who, a); err != nil {
			return err
		}
		if res.Session.State != sessions.SessionStarting {
			break
		}
	}
	if err := f.print(res, res.Session.SessionID, func() {
		f.talk.Line(term.Plain, sessionLine(&res.Session)+", adopted from conversation "+res.Session.NativeID)
	}); err != nil {
		return err
	}
	if res.Session.State == sessions.SessionFailed {
		return ofSession(&res.Session)
	}
	return nil
}
