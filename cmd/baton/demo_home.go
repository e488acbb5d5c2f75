package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// The runners of the demo.
const (
	demoCodex  = "codex-like"
	demoCursor = "cursor-like"
)

// demoConfig lets the embedded agents have full access where Baton's own folders cannot be masked from them: the folder
// is the demo's, and so is what they are told. A host whose demo was killed ends by itself.
const demoConfig = `[host]
idle_exit = "1m"
allow_unconfined_full_access = true

[runners.` + demoCodex + `]
protocol = "app-server"
command = ["baton:agent", "app-server"]

[runners.` + demoCursor + `]
protocol = "acp"
command = ["baton:agent", "acp"]
`

// demoHome is the folder of a demo: Baton's own state, the agents' conversations, and the workspaces.
type demoHome struct {
	dir    string
	record string // what the agents received, written by themselves
	places place.Places
	keep   bool
	logs   string // the end of the logs, read before the folder is removed
}

func newDemoHome(keep bool) (h *demoHome, err error) {
	base := os.TempDir()
	if runtime.GOOS != "linux" && len(base) > 24 {
		base = "/tmp" // what lies below it is too long for a socket's path there
	}
	dir, err := os.MkdirTemp(base, "baton-demo-")
	if err != nil {
		return nil, fmt.Errorf("no folder for the demo: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	h = &demoHome{dir: dir, record: filepath.Join(dir, "record.jsonl"), keep: keep}
	home := filepath.Join(dir, "baton") // agents' folders must not lie inside it
	for _, d := range []string{home, h.workspace(demoCodex), h.workspace(demoCursor)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(demoConfig), 0o600); err != nil {
		return nil, err
	}
	h.places, err = place.Find(func(name string) string { return map[string]string{"BATON_HOME": home}[name] })
	return h, err
}

func (h *demoHome) workspace(runner string) string { return filepath.Join(h.dir, "work", runner) }

// environ is the environment of the front end. Nothing in it leads to the user's own Baton, to conversations of real
// agents, or to a real agent: a runner that is named wrongly is not looked for any further.
func (h *demoHome) environ() []string {
	environ := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "BATON_") && name != "BATON_SANDBOX_RUNG" && name != "BATON_LOG"
	})
	none := filepath.Join(h.dir, "real-agents-are-not-used-by-the-demo")
	return append(environ,
		"BATON_HOME="+h.places.Home,
		"BATON_FIXTURE_RECORD="+h.record,
		"BATON_RUNNER_CODEX="+none, "BATON_RUNNER_CURSOR="+none,
		"CODEX_HOME="+filepath.Join(h.dir, "codex"), "CURSOR_CONFIG_DIR="+filepath.Join(h.dir, "cursor"))
}

// client reaches the host of the folder beside MCP, for what MCP does not offer. It starts none.
func (h *demoHome) client() *remote.Client {
	return remote.New(remote.Options{Socket: h.places.HostSocket(), Lock: h.places.Lock(), TokenFile: h.places.Token()})
}

// demoReceived is one thing that an agent received, in its own record.
type demoReceived struct {
	Agent string `json:"agent"`
	Kind  string `json:"kind"` // prompt, answer, cancel
	Text  string `json:"text"`
}

// received reads the agents' own record: what was really sent, and how often.
func (h *demoHome) received(kind, part string) (n int, err error) {
	f, err := os.Open(h.record)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var r demoReceived
		if err := d.Decode(&r); err != nil {
			return 0, fmt.Errorf("the agents' record: %w", err)
		}
		if r.Kind == kind && strings.Contains(r.Text, part) {
			n++
		}
	}
	return n, nil
}

// remove takes the folder away, or keeps it.
func (h *demoHome) remove() error {
	h.logs = demoTails(h.places.Logs(), 4<<10) + demoTails(h.dir, 4<<10)
	if h.keep {
		return nil
	}
	return os.RemoveAll(h.dir)
}
