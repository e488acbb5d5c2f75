package place

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestFind(t *testing.T) {
	ours := t.TempDir()
	fallback := "/tmp/baton-" + strconv.Itoa(os.Getuid())
	for _, c := range []struct {
		name string
		env  []string
		want Places
		err  string
	}{
		{"BATON_HOME over everything", []string{"BATON_HOME", "/b/./h/", "HOME", "/home/u", "XDG_STATE_HOME", "/s", "XDG_RUNTIME_DIR", ours, "XDG_CONFIG_HOME", "/c"},
			Places{Home: "/b/h", State: "/b/h/state", Runtime: "/b/h/run", Config: "/b/h/config.toml"}, ""},
		{"BATON_HOME without HOME", []string{"BATON_HOME", "/b"},
			Places{Home: "/b", State: "/b/state", Runtime: "/b/run", Config: "/b/config.toml"}, ""},
		{"BATON_HOME relative", []string{"BATON_HOME", "b/h", "HOME", "/home/u"}, Places{}, `BATON_HOME is "b/h"`},
		{"HOME alone", []string{"HOME", "/home/u"},
			Places{State: "/home/u/.local/state/baton", Runtime: fallback, Config: "/home/u/.config/baton/config.toml"}, ""},
		{"XDG", []string{"XDG_STATE_HOME", "/s", "XDG_RUNTIME_DIR", ours, "XDG_CONFIG_HOME", "/c"},
			Places{State: "/s/baton", Runtime: ours + "/baton", Config: "/c/baton/config.toml"}, ""},
		{"XDG relative is ignored", []string{"HOME", "/home/u", "XDG_STATE_HOME", "s", "XDG_RUNTIME_DIR", "r", "XDG_CONFIG_HOME", "c"},
			Places{State: "/home/u/.local/state/baton", Runtime: fallback, Config: "/home/u/.config/baton/config.toml"}, ""},
		{"XDG_RUNTIME_DIR that is not there", []string{"HOME", "/home/u", "XDG_RUNTIME_DIR", filepath.Join(ours, "none")},
			Places{State: "/home/u/.local/state/baton", Runtime: fallback, Config: "/home/u/.config/baton/config.toml"}, ""},
		{"nothing", nil, Places{}, `HOME is "" and neither BATON_HOME nor XDG_STATE_HOME`},
		{"HOME relative", []string{"HOME", "u", "XDG_STATE_HOME", "/s"}, Places{}, `HOME is "u" and neither BATON_HOME nor XDG_CONFIG_HOME`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(environment(c.env...))
			if c.err != "" {
				if sessions.CodeOf(err) != sessions.CodeInvalidParams || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

// After su or sudo -E the variable names a folder of the user before.
func TestRuntimeFolderOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 4242, -1); err != nil {
		t.Fatal(err)
	}
	p, err := Find(environment("HOME", "/home/u", "XDG_RUNTIME_DIR", dir))
	if err != nil || p.Runtime != "/tmp/baton-0" {
		t.Errorf("got %q, %v", p.Runtime, err)
	}
}

func TestPathsOfOneHome(t *testing.T) {
	const generation = "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11"
	p, err := Find(environment("BATON_HOME", "/b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want string }{
		{p.Journal(), "/b/state/journal.db"},
		{p.Lock(), "/b/state/host.lock"},
		{p.StartLock(), "/b/state/start.lock"},
		{p.Token(), "/b/state/token"},
		{p.Logs(), "/b/state/logs"},
		{p.HostLog(), "/b/state/logs/host.log"},
		{p.BridgeLog(generation), "/b/state/logs/bridge-" + generation + ".log"},
		{p.Spill(generation), "/b/state/spill/" + generation},
		{p.HostSocket(), "/b/run/host.sock"},
		{p.BridgeSocket(generation), "/b/run/" + generation + ".sock"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestTwoStatesNeverShareASocket(t *testing.T) {
	dir := t.TempDir()
	at := func(state string) Places {
		p, err := Find(environment("HOME", dir, "XDG_RUNTIME_DIR", dir, "XDG_STATE_HOME", state))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := filepath.Join(dir, "one")
	if a, b := at(one).HostSocket(), at(filepath.Join(dir, "two")).HostSocket(); a == b || filepath.Dir(a) != filepath.Dir(b) {
		t.Errorf("%s and %s", a, b)
	}
	// One state directory has one socket, by whatever path it is reached, before and after it exists.
	before := at(one).HostSocket()
	if err := os.MkdirAll(filepath.Join(one, "baton"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(one, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if now, linked := at(one).HostSocket(), at(filepath.Join(dir, "link")).HostSocket(); now != before || linked != before {
		t.Errorf("%s, then %s, by a symlink %s", before, now, linked)
	}
}

func TestNoIDLeavesItsFolder(t *testing.T) {
	p, err := Find(environment("BATON_HOME", "/b"))
	if err != nil {
		t.Fatal(err)
	}
	const lower = "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11"
	seen := map[string]string{}
	for _, id := range []string{lower, strings.ToUpper(lower), "", ".", "..", "../x", "a/b", `a\b`, "CON", "A", "a", "a\x00b", "a\nb", strings.Repeat("x", 300)} {
		for _, path := range []string{p.BridgeSocket(id), p.Spill(id), p.BridgeLog(id)} {
			dir, name := filepath.Split(path)
			if dir != "/b/run/" && dir != "/b/state/spill/" && dir != "/b/state/logs/" {
				t.Errorf("%q leads to %q", id, path)
			}
			if strings.ContainsAny(name, "\x00\n\\") || len(name) > 60 {
				t.Errorf("%q makes the name %q", id, name)
			}
			if folded := strings.ToLower(path); seen[folded] != "" && seen[folded] != id {
				t.Errorf("%q and %q share %q", id, seen[folded], path)
			} else {
				seen[folded] = id
			}
		}
	}
}

func TestMake(t *testing.T) {
	home := filepath.Join(t.TempDir(), "deep", "home")
	p, err := Find(environment("BATON_HOME", home))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Make(); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{p.Journal(), p.Lock(), p.HostLog(), p.HostSocket(), p.BridgeSocket("x"), p.Spill("x")} {
		info, err := os.Stat(filepath.Dir(path))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("folder of %s: %v, %v", path, info, err)
		}
	}
	for _, dir := range p.Private() {
		if err := os.Chmod(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := p.Make(); !errors.Is(err, local.ErrNotPrivate) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s open to the group: %v", dir, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder that is there already, as a test's temporary one or a home in a shared tree, may be one that others can read.
func TestMakeBelowAReadableHome(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Find(environment("BATON_HOME", home))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Error(err)
	}
}

// A folder that others can write is none to keep a configuration in.
func TestSound(t *testing.T) {
	home := t.TempDir()
	p := Places{Home: home, State: filepath.Join(home, "state"), Runtime: filepath.Join(home, "run")}
	for mode, want := range map[os.FileMode]string{0o700: "", 0o755: "", 0o777: "chmod go-w " + home, 0o770: "0770", 0o707: "0707", 0o777 | os.ModeSticky: "own"} {
		if err := os.Chmod(home, mode); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{p.Sound(), p.Make()} {
			if want == "" && err == nil {
				continue
			}
			if e := sessions.AsError(err); want == "" || err == nil || e.Code != sessions.CodeInvalidParams || !strings.Contains(e.Error(), want) {
				t.Errorf("%v: %v, want %q", mode, err, want)
			}
		}
	}
	if err := (Places{Home: filepath.Join(home, "none")}).Sound(); err != nil {
		t.Error(err)
	}
}
