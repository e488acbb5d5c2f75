package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// driver is the user of one case: it plays the steps of the plan and keeps the books.
type driver struct {
	m    *mortal
	p    plan
	r    *rand.Rand
	work string

	session  string
	sessions []string
	orders   []*order
	deleted  map[string]bool
	kept     map[string][]sessions.Event // what was read of a session once it rested
	closed   bool                        // a close or a cancel was asked for, so that an answer may come too late
}

// patience bounds what a step waits for. It only ever passes in a case that fails.
const patience = 60 * time.Second

// play plays one step. An error is a fault; what a kill makes of the step is not.
func (d *driver) play(name string) error {
	switch name {
	case "create", "create-prompt":
		return d.create(name == "create-prompt")
	case "send":
		return d.finish(d.order("[say 4]", sessions.CommandCompleted, 4))
	case "stream":
		return d.finish(d.order("[slow 8][say 40]", sessions.CommandCompleted, 40))
	case "fail":
		return d.finish(d.order("[say 2][fail out of luck]", sessions.CommandFailed, 0))
	case "approve", "deny":
		return d.approve(name == "approve")
	case "ask":
		o := d.order("[ask]", sessions.CommandCompleted, 0)
		return d.finish(o)
	case "queue":
		return d.queue()
	case "steer":
		return d.steer()
	case "cancel":
		return d.cancel(false)
	case "cancel-queued":
		return d.cancel(true)
	case "close":
		return d.close()
	case "delete":
		return d.delete()
	}
	return fmt.Errorf("no step %q", name)
}

// create makes a session; it is named by its own id or by a key.
func (d *driver) create(prompt bool) error {
	a := args{"runner": d.p.runner, "cwd": d.work, "wait_seconds": 50}
	if d.p.runner == "cursorlike" {
		a["sandbox"] = sessions.SandboxFullAccess
	}
	id := sessions.NewID()
	if d.r.IntN(2) == 0 {
		a["session_id"] = id
	} else {
		a["key"] = "create-" + id
	}
	var o *order
	if prompt {
		o = d.order("[say 4]", sessions.CommandCompleted, 4)
		o.tool = "session_create"
		a["prompt"], a["command_id"] = o.args["text"], o.id
		o.args = a
	}
	var res sessions.CreateResult
	if o != nil {
		o.tried = true
	}
	refusal, err := d.repeat("session_create", a, &res)
	if err != nil {
		return err
	}
	d.session = res.Session.SessionID
	if refusal != nil { // it failed after its launch, and is there to be taken up
		if err := d.unexpected("session_create", refusal); err != nil {
			return err
		}
		var named bool
		if d.session, named = refusal.Details["session_id"].(string); !named {
			return fmt.Errorf("session_create was refused and names no session: %w", refusal)
		}
	}
	d.sessions = append(d.sessions, d.session)
	if refusal != nil {
		if o != nil {
			o.session, o.refused = d.session, refusal
		}
		return nil
	}
	if given, ok := a["session_id"]; ok && given != d.session {
		return fmt.Errorf("session %s was reserved, and %s was made", given, d.session)
	}
	if o != nil {
		o.session = d.session
		if res.Command != nil {
			if err := o.told(*res.Command); err != nil {
				return err
			}
		}
		return d.finish(o)
	}
	return d.expect(res.Session.State == sessions.SessionIdle, "session %s is %s after its create", d.session, res.Session.State)
}

// order makes the next order for the current session, and does not send it.
func (d *driver) order(script string, want sessions.CommandState, words int) *order {
	o := &order{id: sessions.NewID(), session: d.session, tool: "session_send", want: want, words: words, asked: map[string]struct{}{}}
	o.tag = "#" + o.id[len(o.id)-12:]
	o.args = args{"session_id": d.session, "command_id": o.id, "text": o.tag + " " + script}
	d.orders = append(d.orders, o)
	return o
}

// repeat makes a call, and now and then once more.
func (d *driver) repeat(tool string, a args, into any) (*sessions.Error, error) {
	refusal, err := d.m.call(tool, a, into)
	if err == nil && refusal == nil && d.r.Float64() < d.p.shy {
		return d.m.call(tool, a, into)
	}
	return refusal, err
}

// send gives an order without waiting for its end.
func (d *driver) send(o *order) error {
	if _, _, err := o.again(d.m, 0); err != nil {
		return err
	}
	if o.refused == nil && d.r.Float64() < d.p.shy {
		_, _, err := o.again(d.m, 0)
		return err
	}
	if o.refused != nil {
		return d.unexpected("session_send", o.refused)
	}
	return nil
}

// finish gives an order, when it is not given yet, and waits for its end. What its agent asks is answered.
func (d *driver) finish(o *order) error {
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		s, _, err := o.again(d.m, 5)
		if err != nil {
			return err
		}
		if o.refused != nil {
			return d.unexpected(o.tool, o.refused)
		}
		if o.known && o.seen.State.Settled() {
			return d.expect(o.asWanted(), "command %s (%s) is %s (%s: %s), not %s", o.id, o.args["text"], o.seen.State, o.seen.Outcome, o.seen.Reason, o.want)
		}
		if (!s.State.Live() || s.State == sessions.SessionIdle) && (!o.known || o.seen.State == sessions.CommandQueued) {
			return d.expect(false, "session %s is %s, and command %s waits", s.SessionID, s.State, o.id)
		}
		for _, q := range s.Requests {
			if q.State == sessions.RequestPending {
				if err := d.respond(o, q); err != nil {
					return err
				}
			}
		}
	}
	return fmt.Errorf("command %s (%s) is %s for ever", o.id, o.args["text"], o.seen.State)
}

func (d *driver) approve(yes bool) error {
	file := filepath.Join(d.work, "effect-"+sessions.NewID())
	o := d.order("[approve printf x >> "+file+"]", sessions.CommandCompleted, 0)
	o.effect, o.runs = file, yes
	return d.finish(o)
}

// respond answers a request as its order wants it.
func (d *driver) respond(o *order, q sessions.Request) error {
	o.asked[q.RequestID] = struct{}{}
	a := args{"session_id": o.session, "request_id": q.RequestID, "key": "answer-" + q.RequestID}
	switch {
	case q.Kind == sessions.RequestQuestion:
		answers := args{}
		for _, question := range q.Questions {
			answers[question.ID] = []string{question.Options[0].ID}
		}
		a["answers"] = answers
	case o.runs:
		a["decision"] = "approve"
	default:
		a["decision"] = "deny"
	}
	var res sessions.RespondResult
	refusal, err := d.repeat("session_respond", a, &res)
	if err != nil {
		return err
	}
	if refusal != nil {
		return d.unexpected("session_respond", refusal)
	}
	return d.expect(res.Request.State == sessions.RequestAnswered, "request %s is %s (%s)", q.RequestID, res.Request.State, res.Request.Reason)
}

func (d *driver) queue() error {
	all := []*order{d.order("[slow 10][say 8]", sessions.CommandCompleted, 8), d.order("[say 2]", sessions.CommandCompleted, 2), d.order("[say 3]", sessions.CommandCompleted, 3)}
	for i, o := range all {
		if i > 0 {
			o.args["when_busy"] = "queue"
		}
		if err := d.send(o); err != nil {
			return err
		}
		if o.refused != nil {
			return nil
		}
	}
	return d.finishAll(all)
}

func (d *driver) finishAll(all []*order) error {
	for _, o := range all {
		if err := d.finish(o); err != nil {
			return err
		}
	}
	return nil
}

// steer sends a second command into a turn that waits for one.
func (d *driver) steer() error {
	first := d.order("[say 2][wait]", sessions.CommandCompleted, 0)
	first.steered = true
	if err := d.send(first); err != nil || first.refused != nil {
		return err
	}
	second := d.order("[say 3]", sessions.CommandCompleted, 0)
	second.args["when_busy"] = "steer"
	if err := d.send(second); err != nil || second.refused != nil {
		return err
	}
	if err := d.finish(second); err != nil || second.seen.State != sessions.CommandCompleted {
		return err // then nobody ends the first one's turn but the recovery
	}
	return d.finish(first)
}

// cancel cancels a turn that waits for it, and before that a command behind it.
func (d *driver) cancel(queued bool) error {
	first := d.order("[say 3][wait]", sessions.CommandInterrupted, 0)
	if err := d.send(first); err != nil || first.refused != nil {
		return err
	}
	if queued {
		second := d.order("[say 1]", sessions.CommandCancelled, 0)
		second.args["when_busy"] = "queue"
		if err := d.send(second); err != nil {
			return err
		}
		if second.refused == nil {
			if err := d.cancelOrder(second); err != nil {
				return err
			}
		}
	}
	return d.cancelOrder(first)
}

func (d *driver) cancelOrder(o *order) error {
	o.cancelAsked, d.closed = true, true
	var res sessions.CancelResult
	refusal, err := d.repeat("session_cancel", args{"session_id": o.session, "command_id": o.id, "key": "cancel-" + o.id}, &res)
	if err != nil {
		return err
	}
	if refusal != nil {
		return d.unexpected("session_cancel", refusal)
	}
	if res.Command == nil {
		return fmt.Errorf("the cancel of command %s names none", o.id)
	}
	if err := o.told(*res.Command); err != nil {
		return err
	}
	return d.finish(o)
}

// close closes the session, sometimes with a running turn, and takes it up again.
func (d *driver) close() error {
	var o *order
	if d.r.IntN(2) == 0 {
		o = d.order("[say 3][wait]", sessions.CommandInterrupted, 0)
		o.cancelAsked, o.orUnsent = true, true
		if err := d.send(o); err != nil || o.refused != nil {
			return err
		}
	}
	d.closed = true
	var res sessions.CloseResult
	refusal, err := d.repeat("session_close", args{"session_id": d.session, "key": "close-" + sessions.NewID(), "wait_seconds": 40}, &res)
	if err != nil {
		return err
	}
	if refusal != nil {
		return d.unexpected("session_close", refusal)
	}
	if err := d.expect(res.Session.State == sessions.SessionClosed, "session %s is %s after its close: %s", d.session, res.Session.State, res.Proof); err != nil {
		return err
	}
	if res.Stopped != "confirmed" {
		return fmt.Errorf("the end of session %s is %s: %s", d.session, res.Stopped, res.Proof)
	}
	if o != nil {
		if err := d.finish(o); err != nil {
			return err
		}
	}
	return d.resume()
}

// delete forgets the session, and makes another one.
func (d *driver) delete() error {
	d.closed = true
	var res sessions.CloseResult
	refusal, err := d.repeat("session_close", args{"session_id": d.session, "delete": true, "key": "delete-" + sessions.NewID(), "wait_seconds": 40}, &res)
	if err != nil {
		return err
	}
	if refusal != nil {
		return d.unexpected("session_close", refusal)
	}
	if res.Session.State != sessions.SessionDeleted || res.Stopped != "confirmed" {
		return fmt.Errorf("session %s is %s, %s after its deletion: %s", d.session, res.Session.State, res.Stopped, res.Proof)
	}
	d.deleted[d.session] = true
	refusal, err = d.m.call("session_read", args{"session_id": d.session}, nil)
	if err != nil || refusal == nil || refusal.Code != sessions.CodeNotFound {
		return fmt.Errorf("session %s is deleted, and to be read: %v, %v", d.session, refusal, err)
	}
	return d.create(false)
}

func (d *driver) resume() error {
	a := args{"session_id": d.session, "key": "resume-" + sessions.NewID(), "wait_seconds": 50}
	var res sessions.ResumeResult
	refusal, err := d.repeat("session_resume", a, &res)
	if err != nil {
		return err
	}
	if refusal != nil {
		return d.unexpected("session_resume", refusal)
	}
	return d.expect(res.Session.State == sessions.SessionIdle || res.Session.State == sessions.SessionRunning,
		"session %s is %s after its resume", d.session, res.Session.State)
}

// expect is a fault when something that nobody's death can excuse is not so.
func (d *driver) expect(so bool, format string, a ...any) error {
	if so || !d.p.strict() || d.p.away {
		return nil
	}
	return fmt.Errorf(format, a...)
}

// excused are the refusals that the death of a bridge or an agent explains.
var excused = map[sessions.Code]bool{sessions.CodeNotRunning: true, sessions.CodeOutcomeUnknown: true, sessions.CodeStaleGeneration: true,
	sessions.CodeWithdrawn: true, sessions.CodeAgentExited: true, sessions.CodeIncomplete: true, sessions.CodeBusy: true,
	sessions.CodeSandboxUnavailable: true /* of a bridge that was killed before it was one */}

func (d *driver) unexpected(tool string, refusal *sessions.Error) error {
	if excused[refusal.Code] && (!d.p.strict() || d.p.away) {
		return nil
	}
	return fmt.Errorf("%s was refused: %w", tool, refusal)
}

func (d *driver) look() (sessions.Session, error) {
	var res sessions.WaitResult
	refusal, err := d.m.call("session_wait", args{"session_ids": []string{d.session}, "wait_seconds": 0}, &res)
	switch {
	case err != nil:
		return sessions.Session{}, err
	case refusal != nil:
		return sessions.Session{}, refusal
	case len(res.Sessions) != 1:
		return sessions.Session{}, fmt.Errorf("session %s is not there: %+v", d.session, res)
	}
	return res.Sessions[0].Session, nil
}

// recover brings the session back to where the next step can begin, as a user would whose session was lost.
func (d *driver) recover() error {
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		s, err := d.look()
		if err != nil {
			return err
		}
		switch s.State {
		case sessions.SessionIdle:
			ready, err := d.ready(s)
			if err != nil || ready {
				return err
			}
		case sessions.SessionRunning:
			if err := d.unblock(s); err != nil {
				return err
			}
		case sessions.SessionClosed, sessions.SessionFailed:
			if gone, err := d.takeUp(s); err != nil || gone {
				return err
			}
		default:
			if _, err := d.m.call("session_wait", args{"session_ids": []string{d.session}, "wait_seconds": 2}, nil); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("session %s does not come back", d.session)
}

// rest lets the session come to rest, without taking up what has ended.
func (d *driver) rest() error {
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		s, err := d.look()
		if err != nil {
			return err
		}
		switch s.State {
		case sessions.SessionIdle:
			if s.Running != nil || len(s.Requests) > 0 {
				return fmt.Errorf("session %s is idle with %+v and %+v", s.SessionID, s.Running, s.Requests)
			}
			if len(s.Queued) > 0 && s.Recovery == "" {
				return fmt.Errorf("session %s is idle, its queue holds %d, and nobody says why", s.SessionID, len(s.Queued))
			}
			return nil
		case sessions.SessionClosed, sessions.SessionFailed:
			if s.Running == nil && len(s.Requests) == 0 && s.Recovery != "" {
				return nil
			}
		case sessions.SessionRunning:
			if err := d.unblock(s); err != nil {
				return err
			}
		}
		if _, err := d.m.call("session_wait", args{"session_ids": []string{d.session}, "until": "event", "after": args{d.session: s.Cursor}, "wait_seconds": 1}, nil); err != nil {
			return err
		}
	}
	s, err := d.look()
	return fmt.Errorf("session %s stays %s, running %+v, requests %+v (%v)", d.session, s.State, s.Running, s.Requests, err)
}

// events reads a session's events to their end.
func (d *driver) events(session string) ([]sessions.Event, error) {
	if d.deleted[session] {
		return d.kept[session], nil
	}
	if evs, ok := d.kept[session]; ok {
		return evs, nil
	}
	var all []sessions.Event
	for after := ""; ; {
		var page sessions.ReadResult
		refusal, err := d.m.call("session_read", args{"session_id": session, "after": after, "limit": 500, "max_chars": 40000}, &page)
		if err != nil {
			return nil, err
		}
		if refusal != nil {
			return nil, fmt.Errorf("session_read: %w", refusal)
		}
		all = append(all, page.Events...)
		if !page.HasMore {
			d.kept[session] = all
			return all, nil
		}
		after = page.Cursor
	}
}

// ready frees an idle session of what keeps it from the next command.
func (d *driver) ready(s sessions.Session) (bool, error) {
	a := args{"session_id": d.session}
	if len(s.Queued) > 0 {
		a["run_queue"] = true
	}
	if s.Recovery != "" {
		a["acknowledge_unknown"] = true
	}
	if len(a) == 1 {
		return true, nil
	}
	refusal, err := d.m.call("session_resume", a, nil)
	if err == nil && refusal != nil && refusal.Code != sessions.CodeNotRunning {
		err = refusal
	}
	return false, err
}

// unblock ends a turn, or lets it go on.
func (d *driver) unblock(s sessions.Session) error {
	for _, o := range d.orders {
		if s.Running == nil || o.id != s.Running.CommandID {
			continue
		}
		for _, q := range s.Requests {
			if q.State == sessions.RequestPending {
				return d.respond(o, q)
			}
		}
		if o.want == sessions.CommandInterrupted || o.steered {
			return d.cancelOrder(o)
		}
	}
	_, err := d.m.call("session_wait", args{"session_ids": []string{d.session}, "wait_seconds": 2}, nil)
	return err
}

// takeUp resumes a session. It tells whether its agent has lost the conversation, so that a new session has to be made.
func (d *driver) takeUp(s sessions.Session) (bool, error) {
	a := args{"session_id": d.session, "key": "take-up-" + sessions.NewID(), "wait_seconds": 50}
	if len(s.Queued) > 0 && d.r.IntN(2) == 0 {
		a["run_queue"] = true
	}
	if d.r.IntN(2) == 0 {
		a["acknowledge_unknown"] = true
	}
	var res sessions.ResumeResult
	refusal, err := d.repeat("session_resume", a, &res)
	switch {
	case err != nil:
		return false, err
	case refusal == nil:
		return false, nil
	case refusal.Code == sessions.CodeNotFound && d.forgot(s):
		return true, d.create(false) // killed before it wrote anything, and says so
	case excused[refusal.Code]:
		return false, nil
	}
	return false, refusal
}

// forgot tells whether the agent kept nothing of a conversation, because it was killed before it wrote any of it.
func (d *driver) forgot(s sessions.Session) bool {
	kept := d.m.w.path("home/.cursor/acp-sessions/" + s.NativeID + "/store.jsonl")
	if d.p.runner == "codexlike" {
		kept = d.m.w.path("home/.codex/sessions/*/*/*/rollout-*-" + s.NativeID + ".jsonl")
	}
	found, err := filepath.Glob(kept)
	return err == nil && len(found) == 0
}
