package main

import (
	"os"
	"strings"
	"testing"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sessions"
)

type codexAnswer struct{ ThreadID, Content string }

// TestCompatCodex: a thread is found again by another front end, after the death of the host, and, with BATON_FULL=1, after
// the end of its agent.
func TestCompatCodex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BATON_RUNNER_CODEX="+config.EmbeddedAgent)
	w.env = append(w.env, "CODEX_HOME="+w.path("codex"))
	compat := func() *front {
		t.Helper()
		w.more = []string{"--compat", "codex"}
		defer func() { w.more = nil }()
		return w.open()
	}
	f := compat()
	if got := strings.Join(f.tools(), " "); got != "codex codex-reply" {
		t.Errorf("tools %s", got)
	}
	first := call[codexAnswer](f, "codex", args{"prompt": "[say 5]", "cwd": w.work})
	if first.Content != directive.Words(5) || first.ThreadID == "" {
		t.Fatalf("%+v", first)
	}
	f.close()
	w.killHost()
	f = compat()
	second := call[codexAnswer](f, "codex-reply", args{"threadId": first.ThreadID, "prompt": "[say 7]"})
	if second.Content != directive.Words(7) || second.ThreadID != first.ThreadID {
		t.Errorf("%+v", second)
	}
	own := w.open()
	defer own.close()
	s := call[sessions.ListResult](own, "session_list", args{}).Sessions
	if len(s) != 1 || s[0].SessionID != first.ThreadID {
		t.Fatalf("sessions %+v", s)
	}
	if os.Getenv("BATON_FULL") == "" {
		f.close()
		return
	}
	call[sessions.CloseResult](own, "session_close", args{"session_id": s[0].SessionID})
	third := call[codexAnswer](f, "codex-reply", args{"conversationId": s[0].NativeID, "prompt": "[say 3]"})
	if third.Content != directive.Words(3) {
		t.Errorf("%+v", third)
	}
	f.close()
}
