package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// demoTurnLimit bounds the wait for the end of one turn of a scripted agent.
const demoTurnLimit = 40 * time.Second

// demoSession is one session of the demo, read from its first event on with one cursor.
type demoSession struct {
	runner string
	asked  sessions.Settings
	work   string

	sessions.Session        // as create answered it
	cursor           string // of the last event that was read
	seq              int64  // its number
}

// read reads on from the cursor. Every event that the demo ever sees comes through here, so every one of them is known
// to follow the one before, across pages and across hosts.
func (s *demoSession) read(ctx context.Context, c *demoClient) ([]sessions.Event, error) {
	var all []sessions.Event
	for more := true; more; {
		page, err := demoCall[sessions.ReadResult](ctx, c, "session_read", sessions.ReadArgs{SessionID: s.SessionID, After: s.cursor, Limit: 500, MaxChars: sessions.MaxChars})
		if err != nil {
			return nil, err
		}
		if page.Gap != nil {
			return nil, fmt.Errorf("events %d to %d are gone", page.Gap.From, page.Gap.To)
		}
		for _, e := range page.Events {
			if e.Seq != s.seq+1 || e.Session != s.SessionID {
				return nil, fmt.Errorf("event %d of session %s came after event %d of %s", e.Seq, e.Session, s.seq, s.SessionID)
			}
			s.seq = e.Seq
		}
		all = append(all, page.Events...)
		s.cursor, more = page.Cursor, page.HasMore
	}
	return all, nil
}

// demoTurn is what was read of one command.
type demoTurn struct {
	command string
	text    strings.Builder // what was streamed
	parts   int             // in how many reads it came
	request *sessions.Request
	settled *sessions.Settlement
	settles int
	after   int // events of the turn after its end, text above all
}

func (t *demoTurn) take(events []sessions.Event) {
	had := t.text.Len()
	for _, e := range events {
		if e.Command != t.command {
			continue
		}
		switch e.Kind {
		case sessions.EventText:
			if !e.Final {
				t.text.WriteString(e.Text)
			}
			if t.settled != nil {
				t.after++
			}
		case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
			t.request = e.Request
		case sessions.EventRequestResolved:
			t.request = nil
		case sessions.EventCommandSettled:
			t.settled = e.Settled
			t.settles++
		}
	}
	if t.text.Len() > had {
		t.parts++
	}
}

func (t *demoTurn) words() int { return len(strings.Fields(t.text.String())) }

// send sends a prompt under an id of ours and returns at once.
func (s *demoSession) send(ctx context.Context, c *demoClient, prompt string) (*demoTurn, error) {
	t := &demoTurn{command: sessions.NewID()}
	sent, err := demoCall[sessions.SendResult](ctx, c, "session_send", sessions.SendArgs{SessionID: s.SessionID, Text: prompt, CommandID: t.command})
	if err != nil {
		return nil, err
	}
	if sent.Command.CommandID != t.command {
		return nil, fmt.Errorf("session_send answered with command %s, %s was sent", sent.Command.CommandID, t.command)
	}
	return t, nil
}

// follow reads on, woken by session_wait, until enough says so or the turn ends.
func (s *demoSession) follow(ctx context.Context, c *demoClient, t *demoTurn, enough func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTurnLimit, fmt.Errorf("the turn did not get there within %s", demoTurnLimit))
	defer cancel()
	for {
		events, err := s.read(ctx, c)
		if err != nil {
			return err
		}
		t.take(events)
		if t.settled != nil || enough != nil && enough() {
			return nil
		}
		args := sessions.WaitArgs{SessionIDs: []string{s.SessionID}, Until: "event", WaitSeconds: new(10), After: map[string]string{s.SessionID: s.cursor}}
		if s.cursor == "" {
			args.After = nil
		}
		if _, err := demoCall[sessions.WaitResult](ctx, c, "session_wait", args); err != nil {
			return err
		}
	}
}

// settle follows the turn to its end and wants it to end in a state.
func (s *demoSession) settle(ctx context.Context, c *demoClient, t *demoTurn, want sessions.CommandState) error {
	if err := s.follow(ctx, c, t, nil); err != nil {
		return err
	}
	if t.settled.State != want {
		return fmt.Errorf("the command ended as %s (%s %s), not as %s", t.settled.State, t.settled.Outcome, t.settled.Reason, want)
	}
	return nil
}

// asks sends a prompt and follows it until the agent asks.
func (s *demoSession) asks(ctx context.Context, c *demoClient, prompt string, kind sessions.RequestKind) (*demoTurn, *sessions.Request, error) {
	t, err := s.send(ctx, c, prompt)
	if err != nil {
		return nil, nil, err
	}
	if err := s.follow(ctx, c, t, func() bool { return t.request != nil }); err != nil {
		return nil, nil, err
	}
	switch {
	case t.request == nil:
		return nil, nil, fmt.Errorf("the agent did not ask; the command ended as %s", t.settled.State)
	case t.request.Kind != kind:
		return nil, nil, fmt.Errorf("the agent asked for %s, not %s", t.request.Kind, kind)
	}
	return t, t.request, nil
}

func (s *demoSession) has(file string) bool {
	_, err := os.Stat(filepath.Join(s.work, file))
	return err == nil
}
