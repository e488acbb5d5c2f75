package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// listsConversations are the real agents that tell of their conversations (session/list).
var listsConversations = []string{"opencode", "claude", "codex-acp"}

// What a real ACP agent keeps of a session that Baton has forgotten is listed as foreign, read, adopted and gets a turn;
// an agent that does not tell of its conversations is refused as such. With BATON_FULL=1.
func TestRealAgentsForeign(t *testing.T) {
	if os.Getenv("BATON_FULL") == "" {
		t.Skip("SKIPPED, NOT TESTED: foreign conversations of the real ACP agents, without BATON_FULL=1")
	}
	for _, a := range everyAgent {
		t.Run(a.runner, func(t *testing.T) { a.foreign(t) })
	}
}

func (a realAgent) foreign(t *testing.T) {
	w, _ := a.start(t)
	f := w.open()
	defer f.close()
	for range 5 { // a first start makes files that the policy of a session holds (opencode)
		if w.runners()[a.runner].Problem == "" {
			break
		}
		w.baton("runners", "--refresh")
	}
	s := a.create(w, f, nil)
	began := time.Now()
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": a.words(), "wait_seconds": 50})
	if last := f.settle(s.SessionID).Last; last == nil || last.State != sessions.CommandCompleted {
		t.Fatalf("first turn: %+v", last)
	}
	if !slices.Contains(listsConversations, a.runner) {
		_, errs, status := w.verb("list", "--foreign", "-r", a.runner)
		if status != exitError || !strings.Contains(errs, "unsupported") {
			t.Errorf("list: %d %s", status, errs)
		}
		return
	}
	if all := w.foreign("-r", a.runner, "-C", w.work); slices.ContainsFunc(all, func(c sessions.Conversation) bool { return c.NativeID == s.NativeID }) {
		t.Errorf("a session is listed as foreign: %+v", all)
	}
	w.says("rm", s.SessionID)
	all := w.foreign("-r", a.runner, "-C", w.work)
	i := slices.IndexFunc(all, func(c sessions.Conversation) bool { return c.NativeID == s.NativeID })
	if i < 0 || all[i].Cwd != w.work {
		t.Fatalf("listed: %+v", all)
	}
	if out := w.says("logs", "--native", s.NativeID, "-r", a.runner); !strings.Contains(out, "w29 w30") || !strings.Contains(out, "> "+a.words()) {
		t.Errorf("logs: %s", out)
	}
	a.outlastsMinute(began)
	argv := []string{"resume", "--native", s.NativeID, "-r", a.runner, "--sandbox", s.Selections.Asked.Sandbox, "-m", a.model, "-o", "id"}
	id := strings.TrimSpace(w.says(argv...))
	now := call[sessions.ListResult](f, "session_list", args{}).Sessions
	if len(now) != 1 || now[0].SessionID != id || now[0].NativeID != s.NativeID || now[0].Origin != sessions.OriginAdopted || now[0].Selections.Evidence.Model != a.model {
		t.Fatalf("adopted: %+v", now)
	}
	evs := f.events(id)
	if !slices.ContainsFunc(evs, func(e sessions.Event) bool {
		return e.Replay && e.Kind == sessions.EventText && strings.Contains(e.Text, "w29 w30")
	}) {
		t.Errorf("no history:\n%s", kinds(evs))
	}
	call[sessions.SendResult](f, "session_send", args{"session_id": id, "text": a.words(), "wait_seconds": 50})
	if last := f.settle(id).Last; last == nil || last.State != sessions.CommandCompleted {
		t.Errorf("turn: %+v", last)
	}
}
