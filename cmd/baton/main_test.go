package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be baton itself, so that its processes (front end, host, bridge, embedded agents) are
// the code under test, race detector included: `<test binary> mcp` is `baton mcp`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fixtureServer {
		os.Exit(serveFixture())
	}
	if len(os.Args) > 1 && os.Args[1] == undertakerRole {
		os.Exit(undertake())
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(run())
	}
	goleak.VerifyTestMain(m)
}
