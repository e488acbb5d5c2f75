package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// stream reads a turn by cursor while it runs. On a machine that is so slow that the first read finds it ended, the agent
// speaks more slowly the next time.
func (d *demo) stream(ctx context.Context) error {
	return d.both(func(s *demoSession) error {
		for pause := 25; ; pause *= 4 {
			streamed, err := d.streams(ctx, s, pause)
			if err != nil || streamed {
				return err
			}
			if pause >= 400 { // the next turn would be longer than any may be
				return errors.New("the text came in one part, it did not stream")
			}
		}
	})
}

// streams reads one turn with so many milliseconds between two words, and tells whether it came in parts.
func (d *demo) streams(ctx context.Context, s *demoSession, pause int) (bool, error) {
	const words = 40
	t, err := s.send(ctx, d.mcp, fmt.Sprintf("[slow %d][say %d]", pause, words))
	if err != nil {
		return false, err
	}
	shown := 0
	if err := s.follow(ctx, d.mcp, t, func() bool {
		if all := strings.Fields(t.text.String()); len(all) >= shown+words/4 && len(all) < words {
			d.say(s, "reads on: %s", strings.Join(all[shown:len(all)-1], " ")) // the last word may be half of one
			shown = len(all) - 1
		}
		return false
	}); err != nil {
		return false, err
	}
	switch {
	case t.settled.State != sessions.CommandCompleted:
		return false, fmt.Errorf("the command ended as %s", t.settled.State)
	case t.text.String() != directive.Words(words):
		return false, fmt.Errorf("the text is %q", t.text.String())
	case t.parts < 2:
		return false, nil
	}
	d.say(s, "%s: all %d words, streamed in %d parts", t.settled.State, words, t.parts)
	return true, nil
}

// approve answers an approval, and checks that the command waited for it.
func (d *demo) approve(ctx context.Context) error {
	return d.both(func(s *demoSession) error {
		t, request, err := s.asks(ctx, d.mcp, "[approve echo yes > approved.txt]", sessions.RequestApproval)
		if err != nil {
			return err
		}
		d.say(s, "asks: %s", request.Title)
		if s.has("approved.txt") {
			return errors.New("the command ran before it was approved")
		}
		answer := sessions.RespondArgs{SessionID: s.SessionID, RequestID: request.RequestID, Decision: "approve"}
		if _, err := demoCall[sessions.RespondResult](ctx, d.mcp, "session_respond", answer); err != nil {
			return err
		}
		if err := s.settle(ctx, d.mcp, t, sessions.CommandCompleted); err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(s.work, "approved.txt"))
		if err != nil || string(content) != "yes\n" {
			return fmt.Errorf("approved, and the file holds %q: %w", content, err)
		}
		answer.Decision = "deny"
		refusal, err := demoRefused(ctx, d.mcp, sessions.CodeAlreadyAnswered, "session_respond", answer)
		if err != nil {
			return fmt.Errorf("a second answer: %w", err)
		}
		d.say(s, "approved once: approved.txt is there; a second answer is refused: %s", refusal.Code)
		return nil
	})
}

// deny denies an approval; the turn goes on without the command.
func (d *demo) deny(ctx context.Context) error {
	return d.both(func(s *demoSession) error {
		t, request, err := s.asks(ctx, d.mcp, "[approve touch denied.txt]", sessions.RequestApproval)
		if err != nil {
			return err
		}
		d.say(s, "asks: %s", request.Title)
		if _, err := demoCall[sessions.RespondResult](ctx, d.mcp, "session_respond",
			sessions.RespondArgs{SessionID: s.SessionID, RequestID: request.RequestID, Decision: "deny"}); err != nil {
			return err
		}
		if err := s.settle(ctx, d.mcp, t, sessions.CommandCompleted); err != nil {
			return err
		}
		if s.has("denied.txt") {
			return errors.New("denied, and the command ran")
		}
		d.say(s, "denied: denied.txt is not there; the turn went on and is %s", t.settled.State)
		return nil
	})
}

// question answers a question with its second option.
func (d *demo) question(ctx context.Context) error {
	return d.both(func(s *demoSession) error {
		t, request, err := s.asks(ctx, d.mcp, "[ask]", sessions.RequestQuestion)
		if err != nil {
			return err
		}
		if len(request.Questions) != 1 || len(request.Questions[0].Options) != 2 {
			return fmt.Errorf("not one question with two options: %+v", request.Questions)
		}
		q := request.Questions[0]
		d.say(s, "asks: %s %s or %s", q.Text, q.Options[0].Label, q.Options[1].Label)
		had, err := d.home.received("answer", "")
		if err != nil {
			return err
		}
		if _, err := demoCall[sessions.RespondResult](ctx, d.mcp, "session_respond", sessions.RespondArgs{SessionID: s.SessionID,
			RequestID: request.RequestID, Answers: map[string][]string{q.ID: {q.Options[1].ID}}}); err != nil {
			return err
		}
		if err := s.settle(ctx, d.mcp, t, sessions.CommandCompleted); err != nil {
			return err
		}
		all, err := d.home.received("answer", "")
		if err != nil {
			return err
		}
		if all != had+1 || !strings.Contains(t.text.String(), q.Options[1].ID) {
			return fmt.Errorf("the agent received %d answers and says %q", all-had, t.text.String())
		}
		d.say(s, "answered %s; the agent says %s", q.Options[1].Label, t.text.String())
		return nil
	})
}

// cancel ends a turn in the middle of its stream.
func (d *demo) cancel(ctx context.Context) error {
	const words = 5000
	return d.both(func(s *demoSession) error {
		t, err := s.send(ctx, d.mcp, fmt.Sprintf("[slow 10][say %d]", words))
		if err != nil {
			return err
		}
		if err := s.follow(ctx, d.mcp, t, func() bool { return t.words() > 10 }); err != nil {
			return err
		}
		if t.settled != nil {
			return fmt.Errorf("the turn ended by itself after %d words", t.words())
		}
		res, err := demoCall[sessions.CancelResult](ctx, d.mcp, "session_cancel", sessions.CancelArgs{SessionID: s.SessionID, CommandID: t.command})
		if err != nil {
			return err
		}
		if res.Command == nil || res.Command.CommandID != t.command {
			return fmt.Errorf("session_cancel answered about %+v", res.Command)
		}
		if err := s.settle(ctx, d.mcp, t, sessions.CommandInterrupted); err != nil {
			return err
		}
		if !strings.HasPrefix(directive.Words(words), t.text.String()) || t.after > 0 {
			return fmt.Errorf("%d texts after the end, and the text is %q", t.after, t.text.String())
		}
		d.say(s, "cancelled after %d of %d words: the agent confirms, the command is %s", t.words(), words, t.settled.State)
		return nil
	})
}
