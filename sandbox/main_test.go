package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roles are the programs that this test binary can be: Start executes it again, and so do tests and hostile processes.
var roles = map[string]func(args []string) error{}

// linger does nothing until it is killed, and ends by itself should a test fail to.
func linger([]string) error {
	time.Sleep(2 * time.Minute)
	return nil
}

func TestMain(m *testing.M) {
	roles[Command] = bridgeRole
	roles["linger"] = linger
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[1:], err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// role prepares this binary as another program.
func role(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if roles[name] == nil {
		t.Fatalf("no role %q", name)
	}
	cmd := exec.CommandContext(within(t), program(), append([]string{name}, args...)...)
	cmd.Args[0] = "sandbox.test"
	cmd.Stderr = os.Stderr
	return cmd
}
