package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonmcp/baton/sandbox"
)

// demoCommand is `baton demo` in a temporary folder and a HOME of its own, with whatever real agents are installed in
// reach: the demo must leave them alone.
func demoCommand(t *testing.T, env []string, argv ...string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(exe, append([]string{"demo"}, argv...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + tmp, "GORACE=" + os.Getenv("GORACE")}, env...)
	return cmd, tmp
}

// demoOutput runs the demo with --json and returns its steps and its summary.
func demoOutput(t *testing.T, cmd *exec.Cmd) ([]demoStepRecord, demoSummary) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, said.String())
	}
	var steps []demoStepRecord
	var summary demoSummary
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		var step demoStepRecord
		if err := json.Unmarshal(raw, &step); err != nil {
			t.Fatal(err)
		}
		if step.Kind == "step" {
			steps = append(steps, step)
			continue
		}
		if err := json.Unmarshal(raw, &summary); err != nil || summary.Kind != "summary" || d.More() {
			t.Fatalf("%v: not a summary at the end: %s", err, raw)
		}
	}
	return steps, summary
}

// TestDemo is the main job on every rung that there is here, with the race detector on in every process when it is on here.
func TestDemo(t *testing.T) {
	best := sandbox.Probe(t.Context()).Rung
	for _, rung := range sandbox.Rungs {
		if slices.Index(sandbox.Rungs, rung) < slices.Index(sandbox.Rungs, best) {
			continue
		}
		t.Run(string(rung), func(t *testing.T) {
			used := filepath.Join(t.TempDir(), "used")
			bin := t.TempDir()
			for _, name := range []string{"codex", "cursor-agent"} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\ntouch "+used+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd, tmp := demoCommand(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "BATON_SANDBOX_RUNG=" + string(rung)}, "--json", "--keep")
			steps, s := demoOutput(t, cmd)
			if !s.OK || s.Failed != "" || len(steps) != 13 || s.Steps != len(steps) || len(s.Left) != 0 || !s.Kept {
				t.Errorf("%d steps, summary %+v", len(steps), s)
			}
			stopped := map[sandbox.Rung]string{sandbox.PIDNamespace: "confirmed", sandbox.Subreaper: "confirmed", sandbox.ProcessGroup: "unconfirmed"}[rung]
			if s.Rung != string(rung) || s.Stopped != stopped || s.Proof == "" {
				t.Errorf("rung %s: %+v", rung, s)
			}
			told := 0
			for _, step := range steps {
				if !step.OK || len(step.Lines) == 0 {
					t.Errorf("step %+v", step)
				}
				if step.Step == "processes" {
					demoPictured(t, step.Lines)
				}
				for _, l := range step.Lines {
					if strings.Contains(l.Text, bin) && strings.Contains(l.Text, "not used") {
						told++
					}
				}
			}
			if told != 2 {
				t.Errorf("%d of 2 real agents are named", told)
			}
			if exists(used) {
				t.Error("a real agent was started")
			}
			demoKept(t, tmp)
			if t.Failed() {
				t.Log(demoTails(filepath.Join(s.Folder, "baton", "state", "logs"), 16<<10))
			}
		})
	}
}

// demoPictured compares the processes with the picture in the README.
func demoPictured(t *testing.T, lines []demoLine) {
	t.Helper()
	pid := regexp.MustCompile(`[0-9]+ `)
	var tree []string
	for _, l := range lines {
		tree = append(tree, pid.ReplaceAllString(l.Text, ""))
	}
	if want := readmeTree(t); !slices.Equal(tree, want) {
		t.Errorf("the processes are\n%s\nthe README draws\n%s", strings.Join(tree, "\n"), strings.Join(want, "\n"))
	}
}

// demoKept looks at the folder that --keep left: no race, no panic, and nothing beside it.
func demoKept(t *testing.T, tmp string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v in TMPDIR, %v", folders, err)
	}
	logs, err := filepath.Glob(filepath.Join(folders[0], "baton", "state", "logs", "*"))
	if err != nil || len(logs) == 0 { // the host's; a bridge that said nothing leaves none
		t.Fatalf("logs: %v, %v", logs, err)
	}
	for _, name := range append(logs, filepath.Join(folders[0], "mcp.log")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("%s in %s:\n%s", bad, name, text)
			}
		}
	}
}

// TestDemoEndedInTheMiddle: an interrupt, the end of the terminal, and a reader that goes away leave nothing behind.
func TestDemoEndedInTheMiddle(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd, *os.File) error{
		"interrupt": func(c *exec.Cmd, _ *os.File) error { return c.Process.Signal(syscall.SIGINT) },
		"hangup":    func(c *exec.Cmd, _ *os.File) error { return c.Process.Signal(syscall.SIGHUP) },
		"closed":    func(_ *exec.Cmd, out *os.File) error { return out.Close() },
	} {
		for _, step := range []string{"start", "create", "stream", "crash"} {
			t.Run(name+" in "+step, func(t *testing.T) {
				t.Parallel()
				cmd, tmp := demoCommand(t, nil)
				out, in, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cmd.Stdout = in
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				in.Close()
				kill := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
				defer kill.Stop()
				var said strings.Builder
				lines := bufio.NewScanner(out)
				for lines.Scan() {
					said.WriteString(lines.Text() + "\n")
					if f := strings.Fields(lines.Text()); len(f) > 1 && f[1] == step {
						break
					}
				}
				if err := end(cmd, out); err != nil {
					t.Fatal(err)
				}
				for lines.Scan() {
					said.WriteString(lines.Text() + "\n")
				}
				err = cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != exitError {
					t.Errorf("ended with %v\n%s", err, said.String())
				}
				if name != "closed" && !strings.Contains(said.String(), "no process left; folder removed") {
					t.Errorf("it does not say what it left:\n%s", said.String())
				}
				if left, err := (demoCensus{}).left(tmp); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
				if rest, err := os.ReadDir(tmp); err != nil || len(rest) > 0 {
					t.Errorf("in TMPDIR: %v, %v", rest, err)
				}
			})
		}
	}
}

// TestDemoOnASlowMachine: a front end that stands still for longer than a turn takes, between two words of it, fails nothing.
func TestDemoOnASlowMachine(t *testing.T) {
	t.Parallel()
	cmd, _ := demoCommand(t, nil)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	started, crashes := regexp.MustCompile(`baton mcp \(pid (\d+)\)`), regexp.MustCompile(` crash +codex-like +streams`)
	front := 0
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if m := started.FindStringSubmatch(lines.Text()); m != nil {
			front, _ = strconv.Atoi(m[1])
		}
		if crashes.MatchString(lines.Text()) && front > 1 {
			syscall.Kill(front, syscall.SIGSTOP)
			time.Sleep(4 * time.Second) // the time is the point
			syscall.Kill(front, syscall.SIGCONT)
			front = 0
		}
	}
	if err := cmd.Wait(); err != nil || front != 0 {
		t.Errorf("%v, stopped: %t\n%s", err, front == 0, said.String())
	}
}

// TestDemoFails: a demo whose front end offers nothing (as inside a session) fails, says where, and leaves nothing.
func TestDemoFails(t *testing.T) {
	cmd, tmp := demoCommand(t, []string{"BATON_SANDBOX_RUNG=no-such-rung"}, "--json")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitError {
		t.Fatalf("ended with %v\n%s", err, out)
	}
	if !strings.Contains(string(exit.Stderr), "the demo failed in step runners") {
		t.Errorf("it said %s", exit.Stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var s demoSummary
	if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil || s.OK || s.Failed != "runners" || s.Error == "" {
		t.Errorf("%v in summary %s", err, lines[len(lines)-1])
	}
	if rest, err := os.ReadDir(tmp); err != nil || len(rest) > 0 {
		t.Errorf("in TMPDIR: %v, %v", rest, err)
	}
}
