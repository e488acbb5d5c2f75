package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sandbox/policy"
	"github.com/batonmcp/baton/sessions"
)

// What is put around an agent: the whole policy around one without a sandbox of its own, and, of a caller who is bound to
// folders, around Codex too, whose state stays writable whatever the configuration calls it.
func TestFilesOfASession(t *testing.T) {
	both := sandbox.Capability{Rung: sandbox.PIDNamespace, MountNamespace: true, Filesystem: true}
	for name, tt := range map[string]struct {
		runner  string // as configured, see configuration
		sandbox string
		bound   bool
		env     []string // names of variables that are to be folders of their own
		seat    bool     // Seatbelt, which cannot be nested
		want    string   // name of the policy, "" for none
		own     []string // what of the home folder is writable
		around  bool     // and the agent's own sandbox is none
	}{
		"Codex":                          {runner: "fake", want: policy.Hidden},
		"Codex of a bound caller":        {runner: "fake", bound: true, want: sessions.SandboxWorkspaceWrite, own: []string{".codex"}},
		"that only reads":                {runner: "fake", bound: true, sandbox: sessions.SandboxReadOnly, want: sessions.SandboxReadOnly, own: []string{".codex"}},
		"with a home of its own":         {runner: "fake", bound: true, env: []string{"CODEX_HOME", "CODEX_SQLITE_HOME"}, want: sessions.SandboxWorkspaceWrite, own: []string{"CODEX_HOME", "CODEX_SQLITE_HOME"}},
		"with a database elsewhere":      {runner: "fake", bound: true, env: []string{"CODEX_SQLITE_HOME"}, want: sessions.SandboxWorkspaceWrite, own: []string{".codex", "CODEX_SQLITE_HOME"}},
		"with full access":               {runner: "fake", bound: true, sandbox: sessions.SandboxFullAccess},
		"under Seatbelt":                 {runner: "fake", bound: true, seat: true},
		"an ACP agent":                   {runner: "fakeacp", want: sessions.SandboxWorkspaceWrite, around: true},
		"an ACP agent of a bound caller": {runner: "fakeacp", bound: true, want: sessions.SandboxWorkspaceWrite, around: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if r.can = both; tt.seat {
				r.can = sandbox.Capability{Rung: sandbox.ProcessGroup, Filesystem: true}
			}
			home, err := filepath.EvalSymlinks(filepath.Dir(r.cwd))
			if err != nil {
				t.Fatal(err)
			}
			if tt.bound {
				r.who.Folders = []string{home}
			}
			for _, name := range tt.env {
				r.who.Env = append(r.who.Env, name+"="+filepath.Join(home, name))
			}
			if tt.sandbox == "" {
				tt.sandbox = sessions.SandboxWorkspaceWrite
			}
			work, err := r.workspaceOf(r.who, r.cwd, nil)
			if err != nil {
				t.Fatal(err)
			}
			l, _, err := r.plan(r.who, "s", "g", tt.runner, work, sessions.Settings{Sandbox: tt.sandbox})
			if err != nil {
				t.Fatal(err)
			}
			if l.files == nil || l.spec.Open.Files == nil || tt.want == "" {
				if l.files != nil || l.spec.Open.Files != nil || tt.want != "" {
					t.Errorf("%+v, %+v, want %q", l.files, l.spec.Open.Files, tt.want)
				}
				return
			}
			if l.files.Name != tt.want || l.files.ReadOnly != (tt.want != policy.Hidden) || (l.spec.Open.BridgeSandbox == tt.sandbox) != tt.around {
				t.Errorf("%+v, sandbox by the bridge %q, want %q", l.files, l.spec.Open.BridgeSandbox, tt.want)
			}
			var want []string
			for _, name := range tt.own {
				want = append(want, filepath.Join(home, name))
			}
			if tt.want == sessions.SandboxWorkspaceWrite {
				want = append(want, work.cwd)
			}
			slices.Sort(want)
			if got := l.spec.Open.Files.Writable; !slices.Equal(got, want) {
				t.Errorf("writable %q, want %q", got, want)
			}
			for _, dir := range want {
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
