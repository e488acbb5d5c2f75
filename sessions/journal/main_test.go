package journal

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		fmt.Println("error:", victim(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// full tells whether the long form of the suites was asked for.
func full() bool { return os.Getenv("BATON_FULL") != "" }
