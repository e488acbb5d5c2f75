package host

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// maxImages and maxDeadline bound one command.
const (
	maxImages   = 20
	maxDeadline = 7 * 24 * 3600
)

// Send makes one command durable and gives it to the agent, or queues it.
func (h *Host) Send(ctx context.Context, who sessions.Caller, a sessions.SendArgs) (sessions.SendResult, error) {
	if err := named(who); err != nil {
		return sessions.SendResult{}, err
	}
	if a.CommandID == "" {
		a.CommandID = sessions.NewID()
	}
	if err := checkSend(&a); err != nil {
		return sessions.SendResult{}, err
	}
	wait, err := seconds(a.WaitSeconds, 0)
	if err != nil {
		return sessions.SendResult{}, err
	}
	max, err := budget(a.MaxChars)
	if err != nil {
		return sessions.SendResult{}, err
	}
	mean := meaning("send", a)
	w := h.hub.add([]string{a.SessionID}, false) // before anything can happen to the command
	defer w.remove()
	heard := false              // that something waits for the caller may be so already
	var now sessions.SendResult // how things stand, for who does not wait
	err = h.update(ctx, func(tx *journal.Tx, c *changes) error {
		_, found, err := replay(tx, who, a.CommandID, "send", mean)
		heard, now = found, sessions.SendResult{}
		if err == nil && !found {
			if err = h.submitNew(tx, c, who, a, mean); err == nil {
				heard, err = asking(tx, a.SessionID)
			}
			if err == nil && wait <= 0 {
				now, err = receipt(tx, a.SessionID, a.CommandID)
			} else if err == nil {
				err = h.listen(tx, w, a)
			}
		}
		if err == nil {
			h.askedAgain(a.SessionID, a.CommandID)
		}
		return err
	})
	h.answered(a.SessionID, a.CommandID, err == nil)
	if err != nil {
		h.doubted(a.SessionID, a.CommandID, err)
		return sessions.SendResult{}, err
	}
	if now.Session.SessionID != "" {
		return now, nil
	}
	return h.sent(ctx, w, !heard, who, a.SessionID, a.CommandID, wait, max)
}

// receipt is a command that was just submitted, and its session.
func receipt(tx *journal.Tx, session, command string) (sessions.SendResult, error) {
	cmd, err := tx.GetCommand(session, command)
	if err != nil {
		return sessions.SendResult{}, err
	}
	v, err := viewAtHand(tx, session)
	return sessions.SendResult{Command: cmd.Command, Session: v}, err
}

// listen has a waiter told of the end of its command by the transaction that holds it, unless that has the text of another.
func (h *Host) listen(tx *journal.Tx, w *waiter, a sessions.SendArgs) error {
	if a.WhenBusy == "steer" {
		return nil
	}
	h.hub.waitFor(w, a.CommandID)
	return tx.Recall(a.SessionID)
}

func checkSend(a *sessions.SendArgs) error {
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return err
	}
	if err := sessions.CheckName("command_id", a.CommandID); err != nil {
		return err
	}
	if err := checkPrompt("text", a.Text); err != nil {
		return err
	}
	if err := checkLine("model", a.Model); err != nil {
		return err
	}
	if err := checkLine("effort", a.Effort); err != nil {
		return err
	}
	if err := oneOf("when_busy", a.WhenBusy, "refuse", "queue", "steer"); err != nil {
		return err
	}
	if err := oneOf("mode", a.Mode, "default", "plan"); err != nil {
		return err
	}
	if a.WhenBusy == "" {
		a.WhenBusy = "refuse"
	}
	if a.DeadlineSeconds < 0 || a.DeadlineSeconds > maxDeadline {
		return sessions.Errorf(sessions.CodeInvalidParams, "deadline_seconds is %d", a.DeadlineSeconds).Do("use 1 to %d, or leave it out", maxDeadline)
	}
	if len(a.Images) > maxImages {
		return sessions.Errorf(sessions.CodeLimitExceeded, "%d images were given, the limit is %d", len(a.Images), maxImages).
			Do("send fewer, or name their files in the text")
	}
	return nil
}

// submitNew checks whether a command may go now, and writes the intent.
func (h *Host) submitNew(tx *journal.Tx, c *changes, who sessions.Caller, a sessions.SendArgs, mean string) error {
	s, err := tx.GetSession(who.Principal, a.SessionID)
	if err != nil {
		return err
	}
	if err := guard(s, a.Guard); err != nil {
		return err
	}
	if fenced, err := tx.HasFence(who.Principal, "command", a.SessionID, a.CommandID); err != nil {
		return err
	} else if fenced {
		return sessions.Errorf(sessions.CodeFenced, "command %s was cancelled before it was sent", a.CommandID).Do("take a new command_id")
	}
	if unknown, err := tx.UnknownCommands(s.ID, false); err != nil {
		return err
	} else if len(unknown) > 0 {
		return sessions.Errorf(sessions.CodeOutcomeUnknown, "whether command %s ran is not known, so nothing is sent after it", unknown[0].CommandID).
			Do("look at its work, then call session_resume with acknowledge_unknown").With("unknown_command", unknown[0].CommandID)
	}
	if err := h.unserved(s.ID); err != nil {
		return err
	}
	images, err := imagePaths(s.Cwd, a.Images)
	if err != nil {
		return err
	}
	cmd := journal.Command{Command: sessions.Command{CommandID: a.CommandID, Session: s.ID}, Principal: who.Principal, Text: a.Text, Images: images,
		Overrides: journal.Overrides{Model: a.Model, Effort: a.Effort, Mode: a.Mode}, WhenBusy: a.WhenBusy, DeadlineSeconds: a.DeadlineSeconds}
	running, busy, err := tx.RunningCommand(s.ID)
	if err != nil {
		return err
	}
	switch {
	case !s.State.Live() || s.State == sessions.SessionClosing:
		return sessions.Errorf(sessions.CodeNotRunning, "session %s is %s", s.ID, s.State).Do("call session_resume, then send again")
	case s.State == sessions.SessionIdle && !busy:
		if err := holdQueue(tx, s.ID); err != nil {
			return err
		}
		cmd.State, cmd.Generation = sessions.CommandSubmitted, s.Generation
	case a.WhenBusy == "steer" && busy:
		if !s.Capability.Steer {
			return sessions.Errorf(sessions.CodeUnsupported, "runner %s cannot steer a running turn", s.Runner).Do("send with when_busy queue")
		}
		cmd.State, cmd.Generation, cmd.Steer = sessions.CommandSubmitted, s.Generation, running.CommandID
	case a.WhenBusy == "queue":
		queued, err := tx.QueuedCommands(s.ID)
		if err != nil {
			return err
		}
		if len(queued) >= sessions.MaxQueue {
			return sessions.Errorf(sessions.CodeLimitExceeded, "%d commands are queued, the limit is %d", len(queued), sessions.MaxQueue).Do("wait until some have run")
		}
		cmd.State = sessions.CommandQueued
	case busy:
		return sessions.Errorf(sessions.CodeBusy, "command %s of session %s is running", running.CommandID, s.ID).
			Do("wait for it, cancel it, or send with when_busy queue").With("running_command", running.CommandID)
	default:
		return sessions.Errorf(sessions.CodeBusy, "session %s is %s", s.ID, s.State).Do("wait for it, or send with when_busy queue")
	}
	if err := tx.InsertCommand(&cmd); err != nil {
		return err
	}
	if err := tx.PutOperation(journal.Operation{Principal: who.Principal, Key: a.CommandID, Verb: "send", Scope: s.ID, Meaning: mean, State: "done"}); err != nil {
		return err
	}
	c.touch(s.ID, false)
	if cmd.State == sessions.CommandQueued {
		return nil
	}
	ap := applier{h: h, session: s.ID, generation: s.Generation}
	if cmd.Steer == "" {
		if _, err := tx.MoveSession(s.ID, sessions.SessionBusy); err != nil {
			return err
		}
	}
	if err := ap.submit(tx, c, cmd); err != nil {
		return err
	}
	return ap.flush(tx, c)
}

// imagePaths resolves images against the workspace and refuses what lies outside it.
func imagePaths(cwd string, images []string) ([]string, error) {
	if len(images) == 0 {
		return nil, nil
	}
	root, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the workspace %s cannot be resolved: %w", cwd, err).
			Do("see that it is there and may be read")
	}
	var out []string
	for _, p := range images {
		full := p
		if !filepath.IsAbs(full) {
			full = filepath.Join(cwd, p)
		}
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "image %.200q cannot be found: %w", p, err).Do("name a file of the workspace")
		}
		if rel, err := filepath.Rel(root, real); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "image %.200q lies outside the workspace %s", p, cwd).Do("copy it into the workspace")
		}
		if fi, err := os.Stat(real); err != nil || !fi.Mode().IsRegular() {
			return nil, sessions.Errorf(sessions.CodeInvalidParams, "image %.200q is no regular file", p).Do("name a file of the workspace")
		}
		out = append(out, real)
	}
	return out, nil
}

// sent waits for a command and gives what there is of it. unheard: nothing can have happened to it that w was not woken for.
func (h *Host) sent(ctx context.Context, w *waiter, unheard bool, who sessions.Caller, session, command string, wait time.Duration, max int) (sessions.SendResult, error) {
	var res sessions.SendResult
	var cmd journal.Command
	stirred := func(tx *journal.Tx) (ok bool, err error) {
		if cmd, err = tx.GetCommand(session, command); err != nil || cmd.State.Settled() {
			return err == nil, err
		}
		return asking(tx, session)
	}
	v, _, err := h.awaitOn(ctx, w, unheard, who.Principal, session, wait, stirred, func(tx *journal.Tx, v *sessions.Session) (bool, error) {
		res.Command, res.Usage = cmd.Command, cmd.Usage
		if !cmd.State.Settled() {
			return asks(v), nil
		}
		text, _, err := tx.LastFinalText(session, cmp.Or(cmd.Steer, command)) // what steered a turn has that turn's
		res.Text = clip(text, max)
		return true, err
	})
	if end := h.hub.toldOf(w); end != nil && err == nil {
		last := end.session.Last
		return sessions.SendResult{Command: *last, Session: end.session, Text: clip(end.text, max), Usage: last.Usage}, nil
	}
	res.Session = v
	return res, err
}
