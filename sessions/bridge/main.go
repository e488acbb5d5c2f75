package bridge

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/sandbox"
)

// Command is the hidden sub-command that makes a process a bridge.
const Command = "bridge"

// Descriptors that the host hands over.
const (
	fdListener = 3
	fdSpill    = 4
)

// Main is the whole life of a bridge process. It must run before anything else of the program: it may re-execute it.
func Main(version string, adapters map[string]Adapter) int {
	v := newVeil()
	log := zerolog.New(v.log(os.Stderr)).With().Timestamp().Str("part", "bridge").Logger()
	inside, err := sandbox.Enter()
	if err != nil {
		log.Error().Err(err).Msg("containment could not be set up")
		return 1
	}
	// Not before: what is told to a process that is about to be executed anew would be forgotten with it.
	told, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	ln, err := inherited(fdListener)
	if err != nil {
		log.Error().Err(err).Msg("the socket was not handed over")
		return 1
	}
	reaper := sandbox.NewReaper()
	defer reaper.Close()
	spill := os.NewFile(fdSpill, "spill")
	if err := Run(Options{Version: version, Adapters: adapters, Listener: ln, Spill: spill, Inside: inside, Reaper: reaper, Log: log, Told: told, veil: v}); err != nil {
		log.Error().Err(err).Msg("bridge ended")
		return 1
	}
	reaper.Rest(told)
	return 0
}

func inherited(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listener")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not open", fd)
	}
	defer f.Close()
	return net.FileListener(f)
}
