package main

import (
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
)

// An interrupt that comes before a command which takes them itself has begun to listen is not lost: the command does nothing.
func TestInterruptBeforeTheCommand(t *testing.T) {
	t.Setenv("BATON_HOME", t.TempDir())
	for _, signals := range []bool{false, true} {
		interrupted, interrupt := context.WithCancel(context.Background())
		interrupt()
		c := &cobra.Command{}
		c.SetContext(interrupted)
		v := verb{signals: signals}
		err := v.run(func(ctx context.Context, _ *cli.Front, _ []string) error {
			if ctx.Err() == nil {
				t.Errorf("signals %t: it goes on", signals)
			}
			return ctx.Err()
		})(c, nil)
		if coded := (codedError{}); !errors.As(err, &coded) || coded.code != exitError {
			t.Errorf("signals %t: %v", signals, err)
		}
	}
}
