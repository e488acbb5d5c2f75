package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// recordsPatience is how long a host may neither answer nor leave its place before that is an error.
const recordsPatience = 20 * time.Second

func newJournal() *cobra.Command {
	c := &cobra.Command{Use: "journal", Short: "Look into the journal itself, with or without a host", Example: "  baton journal check"}
	c.AddCommand(newJournalCheck(), newJournalExport())
	return c
}

func newJournalCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "check",
		Short:   "Verify everything that the journal promises about itself; exit status 1 when something is wrong",
		Example: "  baton journal check\n  baton journal check --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withRecords(c.Context(), func(r remote.Records, path string) error {
				found, err := r.CheckJournal(c.Context())
				if err != nil {
					return err
				}
				out := json.NewEncoder(os.Stdout)
				for _, p := range found {
					switch {
					case asJSON:
						err = out.Encode(p)
					case p.Session != "" && p.Session != p.ID:
						_, err = fmt.Printf("session %s: %s\n", p.Session, p)
					default:
						_, err = fmt.Println(p)
					}
					if err != nil {
						return err
					}
				}
				if len(found) > 0 {
					return codedError{fmt.Errorf("journal %s: %d problems", path, len(found)), exitError}
				}
				if !asJSON {
					fmt.Printf("journal %s: no problem\n", path)
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one problem a line")
	return c
}

func newJournalExport() *cobra.Command {
	var principal string
	c := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write everything kept of a session to standard output, as lines of JSON",
		Long: "Each line is an object with one member that names what it is: session, generation, input, command, request, event,\n" +
			"gap, damaged (what could not be read), and at last end. A result without its end was cut short.",
		Example: "  baton journal export 0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11 > session.ndjson",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("export takes the id of one session, %d were given", len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return withRecords(c.Context(), func(r remote.Records, _ string) error {
				return r.ExportSession(c.Context(), sessions.Caller{Principal: principal}, args[0], os.Stdout)
			})
		},
	}
	c.Flags().StringVar(&principal, "principal", sessions.DefaultPrincipal, "whose session it is")
	return c
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}

// withRecords gives do the journal through the host that runs, or by itself when there is none. No host is started: one
// would also adopt and settle sessions.
func withRecords(ctx context.Context, do func(r remote.Records, path string) error) error {
	places, err := place.Find(os.Getenv)
	if err != nil {
		return err
	}
	api, err := client()
	if err != nil {
		return err
	}
	for end := time.Now().Add(recordsPatience); ; {
		_, err := api.Status(ctx)
		if err == nil {
			return do(api, places.Journal())
		}
		if !errors.Is(err, remote.ErrNoHost) {
			return err
		}
		offline, err := host.OpenOffline(ctx, places)
		if err == nil {
			return errors.Join(do(offline, places.Journal()), offline.Close())
		}
		if !errors.Is(err, local.ErrLocked) || time.Now().After(end) {
			return err
		}
		select { // a host that starts has the lock before it answers, and one that ends keeps it a little longer
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
