package appserver

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/fixtures/responses"
	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// TestCodexKilled kills Codex in every phase of a command and settles the command from the record of the thread.
func TestCodexKilled(t *testing.T) {
	r := newRig(t)
	p := r.launch()
	o := p.open(r.usual())
	params := r.usual()
	params.NativeID = o.NativeID

	// A thread without a turn is on no disk.
	p.kill()
	p = r.launch()
	if o = p.open(params); !o.Recreated || o.NativeID == params.NativeID {
		t.Errorf("resumed a thread that never ran a turn: %+v", o)
	}
	params.NativeID, params.HadTurn = o.NativeID, true

	p.prompt("done", "[text all of it]")
	p.settled("done", sessions.CommandCompleted)
	p.prompt("failed", "[fail 400 invalid_prompt no]")
	p.settled("failed", sessions.CommandFailed)
	p.prompt("streaming", "[say 100000 8 5]")
	p.await("text", func(e sessions.Event) bool { return e.Kind == sessions.EventText && e.Command == "streaming" })
	p.kill()

	p = r.launch()
	params.Unknown = []string{"done", "failed", "streaming", "never"}
	o = p.open(params)
	if o.Recreated || o.NativeID != params.NativeID {
		t.Fatalf("resumed %+v", o)
	}
	want := map[string]sessions.Settlement{
		"done":      {State: sessions.CommandCompleted, Outcome: "end_turn"},
		"failed":    {State: sessions.CommandFailed, Outcome: "failed"},
		"streaming": {State: sessions.CommandInterrupted, Outcome: "interrupted"},
		"never":     {State: sessions.CommandFailed, Outcome: "not_delivered"},
	}
	for _, s := range o.Settled {
		if w := want[s.Command]; s.State != w.State || s.Outcome != w.Outcome || s.By != byRecord {
			t.Errorf("settled %+v, want %+v", s, w)
		}
		delete(want, s.Command)
	}
	if len(want) > 0 {
		t.Errorf("not settled: %v", want)
	}

	// With an approval open: it is not asked again, and the command was begun.
	p.prompt("asked", "[shell touch asked]")
	p.kind(sessions.EventApprovalRequested)
	p.kill()
	p = r.launch()
	params.Unknown = []string{"asked"}
	if o = p.open(params); len(o.Settled) != 1 || o.Settled[0].State != sessions.CommandInterrupted {
		t.Errorf("settled %+v", o.Settled)
	}
	if r.exists("asked") {
		t.Error("run without an answer")
	}

	// Right after the write: it was delivered or it was not, and the record and the provider agree.
	before := len(r.provider.Requests())
	p.prompt("written", "[text quick]")
	p.kill()
	p = r.launch()
	params.Unknown = []string{"written"}
	o = p.open(params)
	if len(o.Settled) != 1 {
		t.Fatalf("settled %+v", o.Settled)
	}
	if reached := len(r.provider.Requests()) > before; reached && o.Settled[0].Outcome == "not_delivered" {
		t.Errorf("the model was asked, and the command is %+v", o.Settled[0])
	}
	if slices.ContainsFunc(p.events, func(e sessions.Event) bool { return e.Kind == sessions.EventText }) {
		t.Errorf("a resume tells old text again:\n%s", p.told())
	}
	p.prompt("next", "[text goes on]")
	p.settled("next", sessions.CommandCompleted)
	if got := r.read(filepath.Join(r.home, "config.toml")); got != r.config {
		t.Errorf("config.toml was changed:\n%s", got)
	}
}

// TestCodexResume: what is asked at a resume is confirmed, whatever the thread was before, and what cannot be resumed is
// refused for its own reason.
func TestCodexResume(t *testing.T) {
	r := newRig(t)
	p := r.launch()
	extra, err := os.MkdirTemp("/var/tmp", "baton-test-") // /tmp and TMPDIR are Codex's to write by its own rule
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(extra)
	params := r.usual()
	params.Selection.Mode = "plan"
	params.WritableRoots = []string{extra}
	params.Options = map[string]any{"network_access": true}
	o := p.open(params)
	if o.Evidence.Mode != "plan" {
		t.Errorf("opened %+v", o.Evidence)
	}
	p.prompt("c1", "[text one]")
	p.settled("c1", sessions.CommandCompleted)

	second := r.launch()
	params.NativeID, params.HadTurn = o.NativeID, true
	if _, err := second.agent.Open(second.context(), params); sessions.CodeOf(err) != sessions.CodeBusy || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a thread that another process has: %v", err)
	}
	second.kill()
	p.kill()

	p = r.launch()
	params.Selection = sessions.Selection{Model: responses.OtherModel, Effort: "low", Mode: "default", Sandbox: sessions.SandboxFullAccess, ApprovalPolicy: sessions.ApprovalNever}
	params.WritableRoots, params.Options = nil, nil
	o = p.open(params)
	if d := params.Selection.Unconfirmed(o.Evidence); d != nil || o.Evidence.Cwd != r.work {
		t.Errorf("resumed %+v: %+v", o.Evidence, d)
	}
	outside := filepath.Join(extra, "outside")
	p.prompt("c2", "[shell touch "+outside+"]")
	p.settled("c2", sessions.CommandCompleted)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("full access is none: %v", err)
	}
	last := r.provider.Requests()[len(r.provider.Requests())-1]
	if last.Model != responses.OtherModel || last.Effort != "low" {
		t.Errorf("the provider was asked for model %q with effort %q", last.Model, last.Effort)
	}
	p.kill()

	p = r.launch()
	params.Selection = r.usual().Selection
	params.Selection.ApprovalPolicy = sessions.ApprovalNever
	p.open(params)
	p.prompt("c3", "[shell touch "+outside+"2; touch inside]")
	p.settled("c3", sessions.CommandCompleted)
	if _, err := os.Stat(outside + "2"); err == nil {
		t.Error("workspace-write wrote outside of the workspace")
	}
	if !r.exists("inside") {
		t.Errorf("workspace-write cannot write in the workspace:\n%s", p.told())
	}
	p.kill()

	p = r.launch()
	params.NativeID = "01a22e34-37f3-7ca3-bb41-afd0b0634e4f"
	if _, err := p.agent.Open(p.context(), params); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("an unknown thread: %v", err)
	}
	if got := r.read(filepath.Join(r.home, "config.toml")); got != r.config {
		t.Errorf("config.toml was changed:\n%s", got)
	}
}

// TestCodexRefused: what Codex would take and echo is refused before there is a thread.
func TestCodexRefused(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		change func(*sessions.OpenParams)
		want   sessions.Code
	}{
		{func(p *sessions.OpenParams) { p.Selection.Model = "no-such-model" }, sessions.CodeModelUnavailable},
		{func(p *sessions.OpenParams) { p.Selection.Effort = "bogus" }, sessions.CodeModelUnavailable},
		{func(p *sessions.OpenParams) { p.Selection.Model, p.Selection.Effort = "", "bogus" }, sessions.CodeModelUnavailable},
		{func(p *sessions.OpenParams) {
			p.Options = map[string]any{"config": map[string]any{"model_context_window": "wide"}}
		}, sessions.CodeAgentProtocol},
	} {
		p := r.launch()
		params := r.usual()
		x.change(&params)
		if _, err := p.agent.Open(p.context(), params); sessions.CodeOf(err) != x.want {
			t.Errorf("%+v: %v, want %s", params.Selection, err, x.want)
		}
		p.kill()
	}
	if n := len(r.provider.Requests()); n > 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// TestCodexProbe asks without any thread, signed in or not.
func TestCodexProbe(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct{ config, login string }{{r.config, "yes"}, {"", "no"}} {
		if err := os.WriteFile(filepath.Join(r.home, "config.toml"), []byte(x.config), 0o600); err != nil {
			t.Fatal(err)
		}
		b := r.start()
		probe, err := Probe(t.Context(), wire.New(b.out, b.in, wire.Options{}), Options{})
		if err != nil || probe.Login != x.login || probe.Version == "" || len(probe.Models) == 0 {
			t.Errorf("probe: %+v, %v; want login %s", probe, err, x.login)
		}
		if x.config != "" && (len(probe.Models) != 2 || !slices.Equal(probe.Models[0].Efforts, []string{"low", "medium", "high"})) {
			t.Errorf("models: %+v", probe.Models)
		}
	}
	p := r.launch()
	if _, err := p.agent.Open(p.context(), sessions.OpenParams{Cwd: r.work}); sessions.CodeOf(err) != sessions.CodeNotLoggedIn {
		t.Errorf("signed out: %v", err)
	}
}

// TestCodexSchema: the Codex at hand sends nothing that nobody has looked at.
func TestCodexSchema(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	if out, err := exec.Command(r.binary, "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, known := range map[string]func(string) bool{
		"ServerNotification": func(m string) bool { _, ok := notes()[m]; return ok },
		"ServerRequest":      func(m string) bool { return slices.Contains(methods(t, "ServerRequest"), m) },
	} {
		var schema struct {
			OneOf []struct {
				Properties struct {
					Method struct{ Enum []string }
				}
			}
		}
		if err := json.Unmarshal([]byte(r.read(filepath.Join(dir, name+".json"))), &schema); err != nil {
			t.Fatal(err)
		}
		if len(schema.OneOf) == 0 {
			t.Errorf("the schema has no %s", name)
		}
		for _, b := range schema.OneOf {
			if method := b.Properties.Method.Enum[0]; !known(method) {
				t.Errorf("%s %s is new: handle it, or ignore it for a reason", name, method)
			}
		}
	}
}
