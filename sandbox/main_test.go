package sandbox

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the program that Start executes: the first argument picks what this process is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "test process:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}
