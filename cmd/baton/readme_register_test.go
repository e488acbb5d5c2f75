package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/batonmcp/baton/internal/install"
)

// registration is what the README says under one heading of "Register".
type registration struct {
	heading string
	blocks  []readmeBlock
}

func readmeRegistrations(t *testing.T) (all []registration) {
	t.Helper()
	_, text, _ := strings.Cut(readmeText(t), "\n## Register\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var open *readmeBlock
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open != nil:
			if len(all) > 0 {
				r := &all[len(all)-1]
				r.blocks = append(r.blocks, *open)
			}
			open = nil
		case isFence:
			open = &readmeBlock{section: "Register", language: fence}
		case open != nil:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(line, "**"):
			all = append(all, registration{heading: line})
		}
	}
	return all
}

// TestReadmeRegistersWithEveryHost: what the README has a user write for a host is what `baton install` writes, to the last
// member, and what Baton reads from that host's configuration, in the file that it names. Commands of hosts are run with the
// real program where a test finds it.
func TestReadmeRegistersWithEveryHost(t *testing.T) {
	all := readmeRegistrations(t)
	want := install.Command{Program: readmeBinary, Args: []string{"mcp"}}
	for _, h := range install.Hosts() {
		t.Run(h.Name, func(t *testing.T) {
			w := newPlace(t)
			w.env = append(w.env, "PATH="+os.Getenv("PATH"))
			files, commands := 0, []string(nil)
			file, err := h.File(func(name string) string { return map[string]string{"HOME": w.path("home")}[name] }, "linux")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if !strings.Contains(r.heading, h.Title) {
					continue
				}
				for _, b := range r.blocks {
					text := strings.Join(b.lines, "\n")
					if b.language != "sh" {
						files++
						if base := filepath.Base(file); h.Name != "claude-code" && !strings.Contains(r.heading, base) {
							t.Errorf("%s is not named in %q", base, r.heading)
						}
						printed, err := h.Print("baton", want)
						if err != nil {
							t.Fatal(err)
						}
						if got, want := read(t, b.language, text), read(t, b.language, printed); !reflect.DeepEqual(got, want) {
							t.Errorf("%s\nsays %v, and baton install %s --print %v", text, got, h.Name, want)
						}
						w.write("home/config", text)
						if got, err := h.Registered(w.path("home/config"), "baton"); err != nil || !sameCommand(got, want) {
							t.Errorf("%s\nis read as %+v, %v", text, got, err)
						}
						continue
					}
					for _, line := range b.lines {
						if !strings.HasPrefix(line, "baton ") {
							commands = append(commands, line)
						}
					}
				}
			}
			if files == 0 && commands == nil {
				t.Errorf("the README does not say how to register with %s", h.Title)
			}
			for _, line := range commands { // at last: it skips what nobody can run
				w.registers(h, file, line)
			}
		})
	}
}

// read is what a configuration says.
func read(t *testing.T, language, text string) (config map[string]any) {
	t.Helper()
	parse := json.Unmarshal
	if language == "toml" {
		parse = toml.Unmarshal
	}
	if err := parse([]byte(text), &config); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return config
}

func sameCommand(a, b install.Command) bool {
	return a.Program == b.Program && slices.Equal(a.Args, b.Args) && maps.Equal(a.Env, b.Env)
}

// registers runs a command of the README by which a host registers Baton, and the one that undoes it.
func (w *world) registers(h install.Host, file, line string) {
	w.t.Helper()
	want := install.Command{Program: self(w.t), Args: []string{"mcp"}}
	program, rest, _ := strings.Cut(line, " ")
	if program == "code" { // a program with a window: its argument is an entry with its name
		var entry map[string]any
		if err := json.Unmarshal([]byte(strings.Trim(strings.TrimPrefix(rest, "--add-mcp "), "'")), &entry); err != nil {
			w.t.Errorf("%s: %v", line, err)
			return
		}
		name, _ := entry["name"].(string)
		delete(entry, "name")
		printed, err := h.Print(name, install.Command{Program: readmeBinary, Args: want.Args})
		if err != nil {
			w.t.Fatal(err)
		}
		if want := read(w.t, "json", printed); !reflect.DeepEqual(map[string]any{"servers": map[string]any{name: entry}}, want) {
			w.t.Errorf("%s\nadds %v, and baton install %s --print says %v", line, entry, h.Name, want)
		}
		w.json("home/added.json", args{"servers": args{name: entry}})
		if got, err := h.Registered(w.path("home/added.json"), "baton"); err != nil || got.Program != readmeBinary || !slices.Equal(got.Args, want.Args) {
			w.t.Errorf("%s\nis read as %+v, %v", line, got, err)
		}
		return
	}
	variable := map[string]string{"claude": claudeCode.variable, "codex": codexAsHost.variable}[program]
	real := os.Getenv(variable)
	if real == "" {
		w.t.Skipf("SKIPPED: %s is not set: the real %s does not run %q", variable, program, line)
	}
	undo := ""
	for _, l := range readmeLines(w.t, "Undo", "sh") {
		if strings.HasPrefix(l, program+" mcp remove ") {
			undo = l
		}
	}
	run := func(line string) {
		_, rest, _ := strings.Cut(strings.ReplaceAll(line, readmeBinary, want.Program), " ")
		cmd := exec.Command("/bin/sh", "-c", `exec "$PROGRAM" `+rest)
		cmd.Env, cmd.Dir = append(w.env, "PROGRAM="+real), w.work
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	run(line)
	if got, err := h.Registered(file, "baton"); err != nil || !sameCommand(got, want) {
		w.t.Errorf("%s\nregistered %+v, %v", line, got, err)
	}
	run(undo)
	if got, err := h.Registered(file, "baton"); err == nil {
		w.t.Errorf("%s\nleft %+v", undo, got)
	}
}
