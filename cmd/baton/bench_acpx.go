package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// acpx is a command line: a process of its own keeps the agent, and each prompt is a new process that asks it (0.19.1).
type acpx struct {
	h    *benchHome
	node string
	cli  string
	env  []string
}

func newAcpx(h *benchHome, cli string) (*acpx, error) {
	node, err := exec.LookPath(cmp.Or(os.Getenv(benchNode), "node"))
	if err != nil {
		return nil, err
	}
	return &acpx{h: h, node: node, cli: cli, env: append([]string{"PATH=" + filepath.Dir(node) + ":" + os.Getenv("PATH")}, h.env...)}, nil
}

func openAcpx(ctx context.Context, h *benchHome, cli string) (rival, error) {
	a, err := newAcpx(h, cli)
	if err != nil {
		return nil, err
	}
	if _, err := a.run(ctx, "sessions", "new"); err != nil {
		return nil, err
	}
	return a, a.prompt(ctx) // the first prompt starts the owner
}

func (a *acpx) run(ctx context.Context, words ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append([]string{a.cli, "--cwd", a.h.work(), "--agent", self + " " + agentCommand + " acp", "--approve-all"}, words...)
	cmd := exec.CommandContext(ctx, a.node, argv...)
	cmd.Env, cmd.Dir = a.env, a.h.work()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("acpx %s: %w", strings.Join(words, " "), err)
	}
	return out, nil
}

func (a *acpx) prompt(ctx context.Context) error {
	out, err := a.run(ctx, "--format", "quiet", "prompt", benchPrompt)
	if err == nil && !bytes.Contains(out, []byte(benchPrompt)) {
		err = fmt.Errorf("acpx answered %.100q", out)
	}
	return err
}

func (a *acpx) burst(ctx context.Context, updates int) (int, error) {
	out, err := a.run(ctx, "--format", "json", "prompt", fmt.Sprintf("[burst %d %d]", updates, benchSize))
	seen := benchSeen{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		seen.line(lines.Bytes())
	}
	return len(seen), err
}

// memory is that of the owner.
func (a *acpx) memory() (float64, error) {
	p, err := a.owner()
	if err != nil {
		return 0, err
	}
	return benchMemory(p.pid)
}

func (a *acpx) owner() (demoProcess, error) {
	all, err := demoProcesses()
	if err != nil {
		return demoProcess{}, err
	}
	for _, p := range all {
		if strings.Contains(p.argv, "__queue-owner") && strings.Contains(p.argv, a.cli) && strings.Contains(demoEnviron(p.pid), a.h.dir) {
			return p, nil
		}
	}
	return demoProcess{}, errors.New("acpx has no owner process")
}

func (a *acpx) close() error {
	p, err := a.owner()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = a.run(ctx, "sessions", "close")
	if e := syscall.Kill(p.pid, syscall.SIGTERM); e != nil && !errors.Is(e, syscall.ESRCH) { // its time to live is 300 s
		err = errors.Join(err, e)
	}
	return errors.Join(err, benchGone(ctx, p.pid))
}
