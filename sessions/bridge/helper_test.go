package bridge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// A helper that a launcher puts in its place is the agent's own, however late it comes and whatever it is called; what does
// not go on with the launcher's conversation, or whose launcher is the turn's own, ends with the turn.
func TestHelpersOutliveACancel(t *testing.T) {
	dir := t.TempDir()
	launchers := map[string]string{ // what each does once the turn has begun, with a conversation of its own
		"launcher":  `sleep 611`,
		"shim":      `sh -c "sleep 612; :"`,
		"worker":    `sleep 613 <&-`, // as a tool of a server is started: not with its pipes
		"conductor": `sleep 700 | sh -c "sleep 614; :" turn | sleep 701 & sleep 700 | sh -c "sleep 615; :" helper | sleep 701`,
	}
	older, script := map[string]int{}, ""
	for name, does := range launchers {
		began := filepath.Join(dir, name)
		if err := syscall.Mkfifo(began, 0o600); err != nil {
			t.Fatal(err)
		}
		script += fmt.Sprintf("sleep 700 | sh -c 'read x <%s; %s; :' %s | sleep 701 & ", began, does, name)
	}
	pids := map[string]int{}
	w := begin(t, func(f *fake) {
		f.standing = func(argv []string) bool { return argv[len(argv)-1] == "helper" }
		f.prompt = func(context.Context, sessions.Prompt) error {
			for name := range launchers {
				release, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				release.Close()
			}
			for _, seconds := range []string{"611", "612", "613", "614", "615"} {
				pids[seconds] = awaitProcess(t, seconds)
			}
			return nil
		}
		f.cancel = func(_ context.Context, command string) error {
			f.settle(command, sessions.CommandInterrupted)
			return nil
		}
	}, rung(sandbox.PIDNamespace))
	p := w.opened(shell(script + "read x; while read x; do :; done"))
	for name := range launchers {
		older[name] = awaitProcess(t, name)
	}
	awaitTick(t, older)
	p.prompt(2, "c")
	p.result(2)
	p.give(3, InCancel, CancelInput{Command: "c"})
	if s := p.event(sessions.EventCommandSettled).Settled; s.State != sessions.CommandInterrupted || !strings.Contains(s.Reason, "were killed") {
		t.Errorf("settled as %+v", s)
	}
	for seconds, pid := range pids {
		if want := slices.Contains([]string{"611", "612", "615"}, seconds); runs(t, pid) != want {
			t.Errorf("sleep %s runs: %t", seconds, !want)
		}
	}
}
