package mcpserver

import (
	"fmt"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// The text twin of each result: the ids that the next call needs, the states, and as much of the agent's words as fits.

func runnersText(t *twin, r sessions.RunnerListResult) {
	t.line("%d runners", len(r.Runners))
	t.list(len(r.Runners), func(i int) string {
		x := r.Runners[i]
		if !x.Installed || x.Problem != "" {
			return fmt.Sprintf("%s: installed %t, login %s: %s", x.Name, x.Installed, x.Login, x.Problem)
		}
		return fmt.Sprintf("%s %s over %s, login %s, models: %s", x.Name, x.Version, x.Protocol, x.Login, modelsText(x.Models))
	})
}

func modelsText(models []sessions.Model) string {
	var ids []string
	for i, m := range models {
		if i == 6 {
			ids = append(ids, fmt.Sprintf("+%d more", len(models)-i))
			break
		}
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, ", ")
}

func createText(t *twin, r sessions.CreateResult) {
	t.line("%s", sessionText(r.Session))
	if r.Command != nil {
		t.line("%s", commandText(*r.Command))
	}
	askText(t, r.Session)
	t.quote(r.Text)
}

func sendText(t *twin, r sessions.SendResult) {
	t.line("%s", commandText(r.Command))
	t.line("%s", sessionText(r.Session))
	askText(t, r.Session)
	t.quote(r.Text)
}

func waitText(t *twin, r sessions.WaitResult) {
	if r.TimedOut {
		t.line("nothing ended or asked in time; the work goes on")
	}
	if len(r.Sessions) == 1 {
		w := r.Sessions[0]
		t.line("%s", sessionText(w.Session))
		t.line("cursor %s", w.Cursor)
		lastText(t, w.Session)
		askText(t, w.Session)
		t.line("%s", r.Next)
		t.quote(w.Text)
		return
	}
	t.line("%s", r.Next)
	t.list(len(r.Sessions), func(i int) string {
		w := r.Sessions[i]
		text := sessionText(w.Session)
		for _, q := range w.Session.Requests {
			text += ", asks: request " + q.RequestID
			break
		}
		return text
	})
}

func readText(t *twin, r sessions.ReadResult) {
	if r.Gap != nil {
		t.line("events %d to %d can no longer be read: %s", r.Gap.From, r.Gap.To, r.Gap.Reason)
	}
	more := "no more for now"
	if r.HasMore {
		more = "more follow"
	}
	t.line("%d events, %s, cursor %s", len(r.Events), more, r.Cursor)
	t.list(len(r.Events), func(i int) string {
		e := r.Events[i]
		text := fmt.Sprintf("%d %s", e.Seq, e.Kind)
		if e.Command != "" {
			text += " command " + e.Command
		}
		switch {
		case e.Request != nil:
			text += " request " + e.Request.RequestID + " " + e.Request.Title
		case e.Tool != nil:
			text += " " + e.Tool.Title + " " + e.Tool.Status
		case e.Settled != nil:
			text += " " + string(e.Settled.State) + " " + e.Settled.Outcome
		}
		return text + " " + clip(e.Text, 120)
	})
}

func respondText(t *twin, r sessions.RespondResult) {
	t.line("request %s is %s%s", r.Request.RequestID, r.Request.State, because(r.Request.Reason))
	t.line("%s", sessionText(r.Session))
	askText(t, r.Session)
}

func cancelText(t *twin, r sessions.CancelResult) {
	if r.Fenced {
		t.line("nothing of that id existed; it can never start now")
	}
	if r.Command != nil {
		t.line("%s", commandText(*r.Command))
	}
	if r.Session != nil {
		t.line("%s", sessionText(*r.Session))
	}
}

func closeText(t *twin, r sessions.CloseResult) {
	t.line("%s", sessionText(r.Session))
	t.line("its processes: end %s, proof: %s", r.Stopped, r.Proof)
}

func resumeText(t *twin, r sessions.ResumeResult) {
	t.line("%s", sessionText(r.Session))
	askText(t, r.Session)
	t.list(len(r.Settled), func(i int) string { return commandText(r.Settled[i]) })
}

func listText(t *twin, r sessions.ListResult) {
	t.line("%d sessions", len(r.Sessions))
	t.list(len(r.Sessions), func(i int) string {
		text := sessionText(r.Sessions[i])
		if title := r.Sessions[i].Title; title != "" {
			text += ", " + clip(title, 60)
		}
		return text
	})
}

func sessionText(s sessions.Session) string {
	text := fmt.Sprintf("session %s is %s (%s in %s)", s.SessionID, s.State, s.Runner, clip(s.Cwd, 100))
	if s.NeedsInput {
		text += ", it needs input"
	}
	if s.Running != nil {
		text += ", running command " + s.Running.CommandID
	}
	if n := len(s.Queued); n > 0 {
		text += fmt.Sprintf(", %d queued", n)
	}
	if s.Error != nil {
		text += ", " + string(s.Error.Code) + ": " + clip(s.Error.Message, 120)
	}
	if s.Recovery != "" {
		text += "; " + clip(s.Recovery, 160)
	}
	return text
}

func commandText(c sessions.Command) string {
	text := fmt.Sprintf("command %s is %s", c.CommandID, c.State)
	if c.Outcome != "" {
		text += " (" + clip(c.Outcome, 60) + ")"
	}
	return text + because(c.Reason)
}

func lastText(t *twin, s sessions.Session) {
	if s.Last != nil && s.Running == nil {
		t.line("%s", commandText(*s.Last))
	}
}

// askText names what the agent waits for and how it can be answered.
func askText(t *twin, s sessions.Session) {
	t.list(len(s.Requests), func(i int) string {
		q := s.Requests[i]
		text := fmt.Sprintf("%s %s: %s", q.Kind, q.RequestID, clip(q.Title, 100))
		var options []string
		for _, o := range q.Options {
			options = append(options, o.OptionID+" ("+string(o.Kind)+")")
		}
		if len(options) > 0 {
			text += "; options " + clip(strings.Join(options, ", "), 120)
		}
		return text
	})
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + clip(reason, 160)
}
