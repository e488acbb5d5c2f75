package main

import (
	"fmt"
	"maps"

	"github.com/batonmcp/baton/sessions"
)

// order is one command that the client gave, and what it was told about it.
type order struct {
	id, session string
	tag         string // is in the prompt, and so in the agent's record
	tool        string
	args        args

	want   sessions.CommandState // how it ends when nothing of its session is killed
	words  int                   // of its text, when it completes; 0: not looked at
	effect string                // file that grows by one byte when its approved command runs
	runs   bool                  // it is approved

	tried       bool // it was ever sent
	refused     *sessions.Error
	known       bool                // a call about it was answered with success
	seen        sessions.Command    // as it was told last
	asked       map[string]struct{} // requests that came with it
	cancelAsked bool
	steered     bool // another one's text ends its turn
	orUnsent    bool // its session is closed at once: it may end before it is given to the agent, and then never is
}

// asWanted tells whether the order ended as it does when nothing of its session is killed.
func (o *order) asWanted() bool {
	return o.seen.State == o.want || o.orUnsent && o.seen.State == sessions.CommandFailed && o.seen.Outcome == "not_delivered"
}

// again makes the order's call, with a wait of so many seconds.
func (o *order) again(m *mortal, wait int) (sessions.Session, string, error) {
	o.tried = true
	a := maps.Clone(o.args)
	a["wait_seconds"] = wait
	var res struct {
		Session sessions.Session
		Command *sessions.Command
		Text    string
	}
	refusal, err := m.call(o.tool, a, &res)
	switch {
	case err != nil:
		return res.Session, "", err
	case refusal != nil && o.known && o.tool == "session_send":
		return res.Session, "", fmt.Errorf("command %s was acknowledged, and its repetition was refused: %w", o.id, refusal)
	case refusal != nil:
		o.refused = refusal
		return res.Session, "", nil
	case res.Command == nil:
		return res.Session, "", nil // a create whose session is still starting
	}
	return res.Session, res.Text, o.told(*res.Command)
}

// told takes in what an answer says about the order. What has ended has ended for good.
func (o *order) told(c sessions.Command) error {
	switch {
	case c.CommandID != o.id:
		return fmt.Errorf("command %s was asked for, the answer is about %s", o.id, c.CommandID)
	case o.seen.State.Terminal() && (c.State != o.seen.State || c.Outcome != o.seen.Outcome):
		return fmt.Errorf("command %s was %s (%s), and is %s (%s) now", o.id, o.seen.State, o.seen.Outcome, c.State, c.Outcome)
	case o.seen.State == sessions.CommandUnknown && !c.State.Settled():
		return fmt.Errorf("command %s was unknown, and is %s now", o.id, c.State)
	}
	o.known, o.seen, o.refused = true, c, nil
	return nil
}
