package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/sessions"
)

// codexExec starts `codex exec` beside Baton, in the same account, as a person does.
func (w *world) codexExec(binary, prompt string) *exec.Cmd {
	c := exec.Command(binary, "exec", "--skip-git-repo-check", "-C", w.work, "--", prompt)
	c.Env, c.Dir = w.env, w.work
	return c
}

// foreign are the conversations that are listed.
func (w *world) foreign(argv ...string) (all []sessions.Conversation) {
	w.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(w.says(append([]string{"list", "--foreign", "--json"}, argv...)...)))
	for lines.Scan() {
		var c sessions.Conversation
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			w.t.Fatal(err)
		}
		if c.Origin != sessions.OriginForeign {
			w.t.Errorf("not marked as foreign: %s", lines.Text())
		}
		all = append(all, c)
	}
	return all
}

// A thread that `codex exec` made is listed as foreign, read, adopted with its history, and gets a turn. It is adopted
// once, and listed no longer. One that a process holds is read, and refused with that process named.
func TestCodexForeignThread(t *testing.T) {
	t.Parallel()
	foreignThread(t, codexBinary(t))
}

// Older versions, with BATON_FULL=1: 0.125 has no lock that its writer holds, only the record that it has open.
func TestCodexForeignThreadOfOlderVersions(t *testing.T) {
	if os.Getenv("BATON_FULL") == "" {
		t.Skip("SKIPPED, NOT TESTED: threads of older versions of Codex, without BATON_FULL=1")
	}
	for _, v := range codexVersions {
		t.Run(v.name, func(t *testing.T) {
			binary := os.Getenv(v.variable)
			switch {
			case binary == "":
				t.Skipf("SKIPPED, NOT TESTED: %s names no Codex %s; .ci/agents codex-matrix installs one", v.variable, v.name)
			case v.refused:
				x := newCodexRun(t, binary)
				defer x.f.close()
				if _, errs, status := x.verb("list", "--foreign", "-r", "codex"); status != exitError || !strings.Contains(errs, "too old") {
					t.Errorf("list: %d %s", status, errs)
				}
			default:
				foreignThread(t, binary, "--option", "trust_folder=true")
			}
		})
	}
}

func foreignThread(t *testing.T, binary string, options ...string) {
	x := newCodexRun(t, binary)
	w, mock, f := x.world, x.mock, x.f
	defer f.close()
	if out, err := w.codexExec(binary, "[text before baton]").CombinedOutput(); err != nil {
		t.Fatalf("codex exec: %v\n%s", err, out)
	}
	found := w.foreign("-r", "codex", "-C", w.work)
	if len(found) != 1 || found[0].Cwd != w.work || found[0].Source != "exec" || found[0].HeldBy != nil || !strings.Contains(found[0].Title, "before baton") {
		t.Fatalf("listed: %+v", found)
	}
	id := found[0].NativeID
	if out := w.says("read", "--native", id, "-r", "codex", "--json"); strings.Count(out, `"replay":true`) != 2 || !strings.Contains(out, `"kind":"text"`) {
		t.Errorf("read: %s", out)
	}
	if out := w.says("logs", "--native", id, "-r", "codex"); !strings.Contains(out, "> [text before baton]") || !strings.Contains(out, "\nbefore baton\n") {
		t.Errorf("logs: %s", out)
	}

	// Held: the one that writes it is named, and nothing is stored.
	holding := w.codexExec(binary, "[say 100000 8 20]")
	if err := holding.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // it ends by this kill
		_ = holding.Process.Kill()
		_ = holding.Wait()
	}()
	var held sessions.Conversation
	await(t, "the thread that is held", func() bool {
		all := w.foreign("-r", "codex")
		i := slices.IndexFunc(all, func(c sessions.Conversation) bool { return c.HeldBy != nil })
		if i >= 0 {
			held = all[i]
		}
		return i >= 0
	})
	if held.HeldBy == nil || held.HeldBy.PID != holding.Process.Pid || held.HeldBy.Program != "codex" {
		t.Fatalf("held: %+v by %+v, want %d", held, held.HeldBy, holding.Process.Pid)
	}
	_, errs, status := w.verb("resume", "--native", held.NativeID, "-r", "codex")
	if status != exitError || !strings.Contains(errs, "busy") || !strings.Contains(errs, "process "+strconv.Itoa(holding.Process.Pid)+" (codex)") {
		t.Errorf("adopting what is held: %d %s", status, errs)
	}
	if out := w.says("list", "--all", "-o", "id"); out != "" {
		t.Errorf("the refusal left a session: %s", out)
	}

	// Another directory, a model that is not there: refused.
	if _, errs, status := w.verb("resume", "--native", id, "-r", "codex", "-C", w.path("home")); status != exitUsage || !strings.Contains(errs, w.work) {
		t.Errorf("with another directory: %d %s", status, errs)
	}

	// Adopted, with its history and a turn.
	session := strings.TrimSpace(w.says(append([]string{"resume", "--native", id, "-r", "codex", "-m", responses.Model, "--key", "adopt", "-o", "id"}, options...)...))
	s := call[sessions.ListResult](f, "session_list", args{}).Sessions[0]
	if s.SessionID != session || s.NativeID != id || s.Origin != sessions.OriginAdopted || s.Cwd != w.work || s.State != sessions.SessionIdle ||
		s.Selections.Evidence.Model != responses.Model || s.Selections.Evidence.Sandbox != sessions.SandboxWorkspaceWrite {
		t.Errorf("adopted: %+v", s)
	}
	if again := w.says(append([]string{"resume", "--native", id, "-r", "codex", "-m", responses.Model, "--key", "adopt", "-o", "id"}, options...)...); strings.TrimSpace(again) != session {
		t.Errorf("under its key again: %s", again)
	}
	if _, errs, status := w.verb("resume", "--native", id, "-r", "codex"); status != exitError || !strings.Contains(errs, session) {
		t.Errorf("a second adoption: %d %s", status, errs)
	}
	for _, c := range w.foreign("-r", "codex") {
		if c.NativeID == id {
			t.Errorf("a session is listed as foreign: %+v", c)
		}
	}
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": session, "text": "[text with baton]", "command_id": "c-1", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted || strings.TrimSpace(sent.Text) != "with baton" {
		t.Errorf("turn: %+v %q", sent.Command, sent.Text)
	}
	if asked := mock.Requests(); !strings.Contains(string(asked[len(asked)-1].Body), "before baton") {
		t.Error("the agent does not know what was said before")
	}
	replayed, last := 0, int64(0)
	for _, e := range f.events(session) {
		if e.Replay {
			replayed, last = replayed+1, e.Seq
		} else if e.Kind == sessions.EventCommandSubmitted && e.Seq < last {
			t.Errorf("event %d comes before the history's end", e.Seq)
		}
		if e.Replay && e.Command != "" {
			t.Errorf("history that belongs to a command: %+v", e)
		}
	}
	if replayed != 2 {
		t.Errorf("%d events of history", replayed)
	}
	if out := w.says("logs", session); !strings.Contains(out, "-- from here on: what the agent's own record has") {
		t.Errorf("logs: %s", out)
	}

	// Closed and taken up as any other session: the history is there once.
	w.says("close", session)
	w.says("resume", session)
	if n := strings.Count(w.says("read", "--json", session), `"replay":true`); n != replayed {
		t.Errorf("%d events of history after a resume", n)
	}
	if problems := w.says("journal", "check"); !strings.Contains(problems, "no problem") {
		t.Error(problems)
	}

	if _, errs, status := w.verb("resume", "--native", filepath.Base(id)+"0", "-r", "codex"); status != exitMissing {
		t.Errorf("an unknown thread: %d %s", status, errs)
	}
}
