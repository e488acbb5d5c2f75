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

// amount is how much of something a suite does: few under the race detector, most in the long form.
func amount(few, some, most int) int {
	switch {
	case full():
		return most
	case slowed:
		return few
	}
	return some
}
