// Package early makes a process a bridge before the rest of the program is initialised.
//
// Go initialises packages in the order of their import paths, as far as what they import is initialised (language
// specification, program initialization). This one imports what a bridge needs and nothing else, so its turn comes before
// that of the MCP library, whose schema package compiles for milliseconds and keeps megabytes, in every process; a bridge
// lives as long as its session, and there are as many as there are sessions. A test sees to the order.
//
// It is for command baton to import, and for its name alone.
package early

import (
	"os"

	"github.com/batonmcp/baton/internal/release"
	"github.com/batonmcp/baton/sessions/bridge"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == bridge.Command {
		os.Exit(bridge.Main(release.Version, adapters()))
	}
}
