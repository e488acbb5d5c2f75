package bridge

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sandbox"
)

// roleEnv makes this test binary one of the programs below.
const roleEnv = "BATON_BRIDGE_TEST_ROLE"

var roles = map[string]func() error{"panic": panickingBridge}

// reaper reaps for all tests: a process can have only one.
var reaper *sandbox.Reaper

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		if err := role(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	reaper = sandbox.NewReaper()
	code := m.Run()
	reaper.Close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
