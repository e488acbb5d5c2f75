package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/fixtures/record"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// judge looks at everything that is left of a case, with a front end of its own, and says what is wrong.
type judge struct {
	d      *driver
	faults []string
}

func (j *judge) fault(format string, a ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, a...))
}

// judge looks at everything of one driver, through a front end that nobody kills.
func (j *judge) judge(m *mortal) {
	j.d.m = m
	j.settle()
	given, err := record.Read(m.w.path("record"))
	if err != nil {
		j.fault("record: %v", err)
	}
	j.history()
	j.orders(given)
	j.answers(given)
	j.exits()
}

// settle brings every session to rest and takes its last word on every order.
func (j *judge) settle() {
	d := j.d
	for _, id := range d.sessions {
		d.session = id
		if d.deleted[id] {
			continue
		}
		if _, err := d.look(); err != nil {
			j.fault("session %s: %v", id, err)
			continue
		}
		if err := d.rest(); err != nil {
			j.fault("stuck: %v", err)
		}
	}
	for _, o := range d.orders {
		if !o.tried || o.refused != nil && !o.known || d.deleted[o.session] {
			continue
		}
		if _, _, err := o.again(d.m, 0); err != nil {
			j.fault("%v", err)
		} else if !o.known {
			j.fault("lost: nobody knows command %s (%v)", o.id, o.refused)
		}
	}
}

// orders compares what was told with what the agent was given and did.
func (j *judge) orders(given []record.Entry) {
	strict := j.d.p.strict()
	for _, o := range j.d.orders {
		times, cancels := 0, 0
		for _, e := range given {
			if (e.Kind == "prompt" || e.Kind == "steer") && strings.Contains(e.Text, o.tag) {
				times++
			}
			if e.Kind == "cancel" {
				cancels++
			}
		}
		name := fmt.Sprintf("command %s (%s), which is %s (%s: %s)", o.id, o.args["text"], o.seen.State, o.seen.Outcome, o.seen.Reason)
		if o.tool == "session_create" {
			name = fmt.Sprintf("command %s (%s), which is %s (%s: %s)", o.id, o.args["prompt"], o.seen.State, o.seen.Outcome, o.seen.Reason)
		}
		if times > 1 {
			j.fault("twice: %s was given %d times", name, times)
		}
		ran := size(o.effect)
		if ran > 1 {
			j.fault("twice: the effect of %s is there %d times", name, ran)
		}
		if ran > 0 && !o.runs {
			j.fault("wrong: the effect of %s is there, and it was denied", name)
		}
		if !o.tried || j.d.deleted[o.session] {
			continue // and with it what was told of it
		}
		evs := j.events(o)
		switch {
		case o.refused != nil && !o.known && o.tool == "session_create": // it waits for a resume, and may have run then
		case o.refused != nil && !o.known:
			if times > 0 {
				j.fault("wrong: command %s was refused (%v) and given", o.id, o.refused)
			}
		case o.seen.State == sessions.CommandCompleted:
			j.completed(o, name, times, ran, evs)
		case o.seen.State == sessions.CommandCancelled, o.seen.State == sessions.CommandQueued, provenUnsent(evs, o.id):
			if times > 0 {
				j.fault("wrong: %s was given", name)
			}
		case o.seen.State == sessions.CommandInterrupted:
			if !byRecord(evs, o.id) && (!o.cancelAsked || cancels == 0) {
				j.fault("invented: %s, and %d cancels were given, asked for %v", name, cancels, o.cancelAsked)
			}
		case o.seen.State == sessions.CommandFailed && o.seen.Outcome == "not_delivered" && ran == 0 && !strict: // the agent's record lacks it
		case o.seen.State == sessions.CommandFailed && o.want == sessions.CommandFailed:
			if times == 0 {
				j.fault("invented: %s never reached the agent", name)
			}
		case o.seen.State == sessions.CommandUnknown && !strict:
		default:
			j.fault("wrong: %s", name)
		}
		if strict && o.known && !o.asWanted() && !(j.d.p.away && o.seen.State != sessions.CommandUnknown) {
			j.fault("wrong: %s, and %s was to be expected", name, o.want)
		}
	}
}

func (j *judge) completed(o *order, name string, times, ran int, evs []sessions.Event) {
	if times != 1 {
		j.fault("wrong: %s was given %d times", name, times)
	}
	if o.effect != "" && (ran == 1) != o.runs {
		j.fault("wrong: the effect of %s is there %d times", name, ran)
	}
	if o.words == 0 || o.steered {
		return
	}
	got, whole := words(evs, o.id), directive.Words(o.words)
	if byRecord(evs, o.id) && count(evs, sessions.EventGap, "") > 0 && strings.HasPrefix(whole, got) {
		return // what died with the bridge is missing, and the history says so
	}
	if got != whole {
		j.fault("lost: the text of %s is %q", name, got)
	}
}

func (j *judge) events(o *order) []sessions.Event {
	evs, err := j.d.events(o.session)
	if err != nil {
		j.fault("%v", err)
	}
	return evs
}

// provenUnsent tells whether the command was settled by the host's or the bridge's own proof that it was not given.
func provenUnsent(evs []sessions.Event, command string) bool {
	for _, e := range evs {
		if e.Kind == sessions.EventCommandSettled && e.Command == command && e.Settled != nil && e.Settled.By == "not delivered" {
			return true
		}
	}
	return false
}

// byRecord tells whether the command's last word is the agent's own record of its conversation.
func byRecord(evs []sessions.Event, command string) bool {
	by := ""
	for _, e := range evs {
		if e.Kind == sessions.EventCommandSettled && e.Command == command && e.Settled != nil {
			by = e.Settled.By
		}
	}
	return by != "" && by != "not delivered"
}

// history checks the events of every session: numbered from 1 without gap, one end of everything.
func (j *judge) history() {
	for _, id := range j.d.sessions {
		if j.d.deleted[id] {
			continue
		}
		evs, err := j.d.events(id)
		if err != nil {
			j.fault("%v", err)
			continue
		}
		ends, unknown, turns := map[string]int{}, map[string]int{}, map[string]int{}
		asked, resolved := map[string]int{}, map[string]int{}
		for i, e := range evs {
			if e.Seq != int64(i+1) {
				j.fault("events: number %d of session %s is %d", i+1, id, e.Seq)
				break
			}
			switch e.Kind {
			case sessions.EventCommandSettled:
				if e.Settled.State == sessions.CommandUnknown {
					unknown[e.Command]++
				} else {
					ends[e.Command]++
				}
			case sessions.EventTurnCompleted:
				turns[e.Command]++
			case sessions.EventApprovalRequested, sessions.EventQuestionRequested:
				asked[e.Request.RequestID]++
			case sessions.EventRequestResolved:
				resolved[e.Request.RequestID]++
			case sessions.EventGap:
				if j.d.p.strict() {
					j.fault("lost: %v", e.Gap)
				}
			case sessions.EventError:
				if e.Code == sessions.CodeInternal {
					j.fault("events: %s", e.Text)
				}
			}
		}
		for what, m := range map[string]map[string]int{"end": ends, "unknown end": unknown, "turn": turns, "request": asked, "resolution": resolved} {
			for of, n := range m {
				if n > 1 {
					j.fault("events: %d %ss of %s", n, what, of)
				}
			}
		}
		for of := range asked {
			if resolved[of] != 1 {
				j.fault("events: request %s has %d resolutions", of, resolved[of])
			}
		}
		for _, o := range j.d.orders {
			if o.session == id && o.known && o.seen.State.Terminal() && ends[o.id] != 1 {
				j.fault("events: command %s is %s and has %d ends", o.id, o.seen.State, ends[o.id])
			}
		}
	}
}

// answers checks that no request of an agent was answered twice, nor after it was withdrawn without need.
func (j *judge) answers(given []record.Entry) {
	seen := map[string]int{}
	turn := map[string]string{} // by thread the prompt before it, since every process of an agent counts its requests anew
	for _, e := range given {
		if e.Kind == "prompt" {
			turn[e.Thread] = e.ID
		}
		if e.Kind != "answer" {
			continue
		}
		if e.Text == "stale" {
			if !j.d.closed {
				j.fault("answered: %+v", e)
			}
			continue
		}
		key := e.Thread + " " + turn[e.Thread] + " " + e.ID
		if seen[key]++; seen[key] > 1 {
			j.fault("answered twice: %+v", e)
		}
	}
}

// exits checks that every session can be left and come back to.
func (j *judge) exits() {
	d := j.d
	for _, id := range d.sessions {
		d.session = id
		if d.deleted[id] {
			continue
		}
		var closed sessions.CloseResult
		refusal, err := d.m.call("session_close", args{"session_id": id, "wait_seconds": 40}, &closed)
		if err != nil || refusal != nil || closed.Stopped != "confirmed" || closed.Session.State.Live() {
			j.fault("stuck: close of session %s: %s, %s: %s (%v, %v)", id, closed.Session.State, closed.Stopped, closed.Proof, refusal, err)
			continue
		}
		var back sessions.ResumeResult
		refusal, err = d.m.call("session_resume", args{"session_id": id, "acknowledge_unknown": true, "wait_seconds": 40}, &back)
		switch {
		case err == nil && refusal != nil && refusal.Code == sessions.CodeNotFound && d.forgot(closed.Session):
			// The agent was killed before it wrote anything of this conversation; that is the exit that is left.
			refusal, err = d.m.call("session_close", args{"session_id": id, "delete": true}, nil)
			if err != nil || refusal != nil {
				j.fault("stuck: session %s cannot be deleted: %v, %v", id, refusal, err)
			}
			d.deleted[id] = true
			continue
		case err != nil, refusal != nil, back.Session.State != sessions.SessionIdle:
			j.fault("stuck: session %s is %s after its resume (%v, %v)", id, back.Session.State, refusal, err)
			continue
		}
		var sent sessions.SendResult
		refusal, err = d.m.call("session_send", args{"session_id": id, "text": "[say 2]", "wait_seconds": 40}, &sent)
		if err != nil || refusal != nil || sent.Command.State != sessions.CommandCompleted || sent.Text != directive.Words(2) {
			j.fault("stuck: session %s does not work any more: %+v %q (%v, %v)", id, sent.Command, sent.Text, refusal, err)
		}
		refusal, err = d.m.call("session_close", args{"session_id": id, "wait_seconds": 40}, &closed)
		if err != nil || refusal != nil || closed.Stopped != "confirmed" {
			j.fault("stuck: last close of session %s: %s: %s (%v, %v)", id, closed.Stopped, closed.Proof, refusal, err)
		}
	}
}

// complaints are the lines of a log that no crash of another process explains.
var complaints = regexp.MustCompile(`(?i)impossible|panic|could not be applied|could not be journalled|DATA RACE|of an unknown kind|could not be spilled`)

func (j *judge) logs() {
	names, err := filepath.Glob(j.d.m.w.path("baton/state/logs/*"))
	if err != nil {
		j.fault("%v", err)
	}
	for _, name := range append(names, j.d.m.w.path("front.log")) {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			j.fault("%v", err)
		}
		for line := range strings.Lines(string(b)) {
			if complaints.MatchString(line) {
				j.fault("log: %s: %s", filepath.Base(name), line)
			}
		}
	}
}

// journal checks what is on the disk, once nobody holds it.
func (j *judge) journal() {
	ctx := context.Background()
	file, err := journal.Open(ctx, j.d.m.w.path("baton/state/journal.db"), journal.Options{})
	if err != nil {
		j.fault("journal: %v", err)
		return
	}
	defer file.Close()
	problems, err := file.Check(ctx)
	if err != nil {
		j.fault("journal: %v", err)
	}
	for _, p := range problems {
		j.fault("journal: %v", p)
	}
}

// size is the length of a file, 0 when it is not there.
func size(name string) int {
	if name == "" {
		return 0
	}
	fi, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return int(fi.Size())
}
