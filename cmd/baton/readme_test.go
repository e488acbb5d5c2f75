package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sessions"
)

// readmeBlock is one fenced block of the README, with the heading of its section.
type readmeBlock struct {
	section, language string
	lines             []string
}

func readmeText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readmeBlocks(t *testing.T) []readmeBlock {
	t.Helper()
	var blocks []readmeBlock
	var open *readmeBlock
	section := ""
	for line := range strings.Lines(readmeText(t)) {
		line = strings.TrimRight(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &readmeBlock{section: section, language: fence}
		case isFence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		}
	}
	if open != nil || len(blocks) == 0 {
		t.Fatalf("%d blocks, an open one: %v", len(blocks), open)
	}
	return blocks
}

// readmeLines are the lines of the blocks of a section in a language.
func readmeLines(t *testing.T, section, language string) []string {
	t.Helper()
	var lines []string
	for _, b := range readmeBlocks(t) {
		if b.section == section && b.language == language {
			lines = append(lines, b.lines...)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no %s block in section %q", language, section)
	}
	return lines
}

// readmeBinary is where the README says that baton is.
const readmeBinary = "/home/you/go/bin/baton"

// readmeForeign are commands of other programs, which are checked for their form, and of go, which .ci/run takes from the
// README and runs.
var readmeForeign = []*regexp.Regexp{
	regexp.MustCompile(`^claude mcp add baton --scope user -- ` + readmeBinary + ` mcp$`),
	regexp.MustCompile(`^claude mcp remove baton --scope user$`),
	regexp.MustCompile(`^codex mcp add baton -- ` + readmeBinary + ` mcp$`),
	regexp.MustCompile(`^codex mcp remove baton$`),
	regexp.MustCompile(`^code --add-mcp '(\{.*\})'$`),
	regexp.MustCompile(`^go run \./cmd/baton demo$`),
	regexp.MustCompile(`^go test \./\.\.\.$`),
	regexp.MustCompile(`^go install \./cmd/baton$`),
}

// TestReadmeCommands runs the commands of the README from its first to its last, as a user with an empty HOME would.
func TestReadmeCommands(t *testing.T) {
	w := newWorld(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "run", "home"} {
		if err := os.MkdirAll(w.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(exe, w.path("bin/baton")); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"PATH=" + w.path("bin") + ":" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "XDG_RUNTIME_DIR=" + w.path("run"),
		"BATON_RUNNER_CODEX=" + config.EmbeddedAgent, "BATON_RUNNER_CURSOR=" + config.EmbeddedAgent}
	ours := []string{w.path("home/.local/state/baton"), w.path("run/baton")}
	ran := 0
	for _, b := range readmeBlocks(t) {
		for _, line := range b.lines {
			switch {
			case b.language != "sh":
				continue
			case slices.ContainsFunc(readmeForeign, func(re *regexp.Regexp) bool { return re.MatchString(line) }):
				if m := readmeForeign[4].FindStringSubmatch(line); m != nil {
					var server struct {
						Name, Command string
						Args          []string
					}
					if err := json.Unmarshal([]byte(m[1]), &server); err != nil || server.Name != "baton" || server.Command != readmeBinary || !slices.Equal(server.Args, []string{"mcp"}) {
						t.Errorf("%s: %+v, %v", line, server, err)
					}
				}
				continue
			case !strings.HasPrefix(line, "baton ") && b.section != "Backups":
				t.Errorf("nobody checks the command %q", line)
				continue
			}
			for _, dir := range ours {
				if strings.HasPrefix(line, "baton uninstall") && !exists(dir) {
					t.Errorf("%s is not there before %q", dir, line)
				}
			}
			cmd := exec.Command("/bin/sh", "-euc", line)
			cmd.Env, cmd.Dir = w.env, w.work
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("only %d commands ran", ran)
	}
	for _, dir := range ours {
		if exists(dir) {
			t.Errorf("%s is there after everything was undone", dir)
		}
	}
}

// TestReadmeConfigurations reads every configuration: ours as baton does, those of hosts for what they must say.
func TestReadmeConfigurations(t *testing.T) {
	type server struct {
		Type    string
		Command any
		Args    []string
		Enabled bool
	}
	seen := map[string]bool{}
	for _, b := range readmeBlocks(t) {
		text := []byte(strings.Join(b.lines, "\n"))
		switch {
		case b.language == "toml" && b.section == "Register":
			var c struct {
				Servers map[string]server `toml:"mcp_servers"`
			}
			if err := toml.Unmarshal(text, &c); err != nil || c.Servers["baton"].Command != readmeBinary || !slices.Equal(c.Servers["baton"].Args, []string{"mcp"}) {
				t.Errorf("%s: %+v, %v", text, c, err)
			}
			seen["codex"] = true
		case b.language == "toml":
			c, err := config.Parse("config.toml", text)
			if err != nil || len(c.Runners) != 1 {
				t.Errorf("%s: %v", text, err)
			}
			seen["baton"] = true
		case b.language == "json":
			var c map[string]map[string]server
			if err := json.Unmarshal(text, &c); err != nil || len(c) != 1 {
				t.Errorf("%s: %v", text, err)
			}
			for kind, servers := range c {
				s, there := servers["baton"]
				ok := there && s.Command == readmeBinary && slices.Equal(s.Args, []string{"mcp"})
				if kind == "mcp" { // opencode
					words, _ := s.Command.([]any)
					ok = len(words) == 2 && words[0] == readmeBinary && words[1] == "mcp" && s.Type == "local" && s.Enabled
				}
				if !ok {
					t.Errorf("%s: %+v", text, s)
				}
				seen[kind] = true
			}
		}
	}
	for _, kind := range []string{"codex", "baton", "mcpServers", "servers", "context_servers", "mcp"} {
		if !seen[kind] {
			t.Errorf("no configuration of kind %s", kind)
		}
	}
}

// TestReadmeFirstSession makes the calls of the walk-through in their order. The prompts become directives of the
// scripted agent, so that it asks where the text says that it asks.
func TestReadmeFirstSession(t *testing.T) {
	w := newWorld(t, "BATON_RUNNER_CODEX="+config.EmbeddedAgent)
	w.env = append(w.env, "CODEX_HOME="+w.path("codex"))
	f := w.open()
	defer f.close()
	fill := map[string]string{"/home/you/project": w.work, "Run the tests and fix what fails.": "[approve echo ok]", "Now rewrite everything.": "[wait]"}
	known := func(name, value string) {
		if value == "" {
			t.Fatalf("nothing to put in for %s", name)
		}
		fill[name] = value
	}
	var used []string
	for _, line := range readmeLines(t, "A first session", "text") {
		tool, text, ok := strings.Cut(line, " ")
		if !ok {
			t.Fatalf("%q is no call", line)
		}
		for name, value := range fill {
			text = strings.ReplaceAll(text, name, value)
		}
		a := args{}
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		used = append(used, tool)
		switch result := call[json.RawMessage](f, tool, a); tool {
		case "runner_list":
			for _, r := range readmeResult[sessions.RunnerListResult](t, result).Runners {
				if r.Name == "codex" {
					known("MODEL", r.Models[0].ID)
				}
			}
		case "session_create":
			known("SESSION", readmeResult[sessions.CreateResult](t, result).Session.SessionID)
		case "session_wait":
			s := readmeResult[sessions.WaitResult](t, result).Sessions[0]
			known("CURSOR", s.Cursor)
			if len(s.Session.Requests) > 0 {
				known("REQUEST", s.Session.Requests[0].RequestID)
			}
		case "session_close":
			if c := readmeResult[sessions.CloseResult](t, result); c.Session.State != sessions.SessionClosed {
				t.Errorf("closed: %+v", c.Session)
			}
		}
	}
	for _, tool := range demoTools {
		if !slices.Contains(used, tool) {
			t.Errorf("the walk-through leaves out %s", tool)
		}
	}
}

func readmeResult[R any](t *testing.T, raw json.RawMessage) (r R) {
	t.Helper()
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// readmeTree is the picture of the processes without its remarks, as the demo prints it without its pids.
func readmeTree(t *testing.T) []string {
	t.Helper()
	var tree []string
	remark := regexp.MustCompile(`([a-z]) {3,}.*`)
	for _, line := range readmeLines(t, "Processes", "text") {
		line = remark.ReplaceAllString(line, "$1")
		line = strings.NewReplacer("codex app-server", "/proc/self/exe agent app-server", "cursor-agent acp", "/proc/self/exe agent acp").Replace(line)
		tree = append(tree, line)
	}
	return tree
}

// TestReadmeDependencies compares the table with what go.mod requires.
func TestReadmeDependencies(t *testing.T) {
	b, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 1 && strings.Contains(f[0], "/") && strings.HasPrefix(f[1], "v") && !strings.Contains(line, "// indirect") {
			direct[f[0]] = true
		}
	}
	row := regexp.MustCompile(`(?m)^\| ([a-z0-9.]+/[^ ]+) \| .+ \|$`)
	for _, m := range row.FindAllStringSubmatch(readmeText(t), -1) {
		if !direct[m[1]] {
			t.Errorf("go.mod requires no %s", m[1])
		}
		delete(direct, m[1])
	}
	for name := range direct {
		t.Errorf("the README does not say why there is %s", name)
	}
}

// TestReadmeLinks: the files that the README leads to are there.
func TestReadmeLinks(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^):#]+)\)`).FindAllStringSubmatch(readmeText(t), -1) {
		if !exists(filepath.Join("../..", m[1])) {
			t.Errorf("%s is not there", m[1])
		}
	}
}
