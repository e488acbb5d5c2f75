package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/sessions"
)

// verb is what every command on sessions has: whose they are, and how results are printed.
type verb struct {
	principal string
	json      bool
	output    string
	formats   []string
	signals   bool // it takes interrupts itself
}

// add gives a command the flags of a verb. formats are those of -o beside json.
func (v *verb) add(c *cobra.Command, formats ...string) {
	v.formats = append([]string{"json"}, formats...)
	v.addPrincipal(c)
	c.Flags().BoolVar(&v.json, "json", false, "print JSON: the objects of the MCP tools, one a line where they are several")
	c.Flags().StringVarP(&v.output, "output", "o", "", "how results are printed: "+strings.Join(v.formats, ", "))
	complete(c, "output", func() []string { return v.formats })
}

// addPrincipal gives a command that prints in one way alone what it needs of a verb.
func (v *verb) addPrincipal(c *cobra.Command) {
	c.Flags().StringVar(&v.principal, "principal", sessions.DefaultPrincipal, "whose sessions these are; keeps programs of one user apart, it is no wall")
}

// run is what a command does with its arguments and a Front.
func (v *verb) run(do func(ctx context.Context, f *cli.Front, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if v.output != "" && !slices.Contains(v.formats, v.output) {
			return usageError{fmt.Errorf("-o %q is none of %s", v.output, strings.Join(v.formats, ", "))}
		}
		o := cli.Options{Who: caller(v.principal), Format: cli.Format(v.output), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
		if v.json {
			o.Format = cli.JSON
		}
		api, err := looking()
		if err != nil {
			return err
		}
		o.API, o.Foreign = api, api
		ctx := c.Context()
		if v.signals {
			ch := make(chan os.Signal, 4)
			signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(ch)
			o.Signals = ch
			if ctx.Err() != nil { // one that came before this command listened
				return codedError{fmt.Errorf("interrupted; nothing was started"), exitError}
			}
			ctx = context.WithoutCancel(ctx) // an interrupt is for the agent's turn first
		}
		f := cli.New(o)
		err = do(ctx, f, args)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return codedError{fmt.Errorf("interrupted; what was started goes on"), exitError}
		case o.Format == cli.JSON && !errors.As(err, new(*cli.Ended)):
			return errors.Join(err, f.Fail(err))
		}
		return err
	}
}

// exactly is how many arguments a command takes; what names them. most is -1 for any number.
func exactly(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usageError{fmt.Errorf("%s takes %s, %d arguments were given; see %s --help", c.CommandPath(), what, len(args), c.CommandPath())}
		}
		return nil
	}
}

// guardFlags are what must hold, or nothing is done.
func guardFlags(c *cobra.Command, g *sessions.Guard) {
	c.Flags().StringVar(&g.LeaseID, "lease", "", "only while this lease steers the session")
	c.Flags().StringVar(&g.Generation, "generation", "", "only while this generation is the live one")
}

func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, "key", "", "idempotency key: given again with the same arguments nothing is done twice")
}

func waitFlags(c *cobra.Command, w *cli.Wait, what string) {
	c.Flags().BoolVarP(&w.Wait, "wait", "w", false, "wait for the end of "+what)
	c.Flags().DurationVar(&w.Limit, "timeout", 0, "wait no longer than this, as in 90s or 2h; the work goes on (implies --wait)")
}

// settle makes a time limit imply the wait.
func settle(w *cli.Wait) error {
	if w.Limit < 0 {
		return cli.Usage("--timeout is %s; give a time above 0", w.Limit)
	}
	w.Wait = w.Wait || w.Limit > 0
	return nil
}

// absoluteDir is a directory of the command line as the host, which runs elsewhere, understands it.
func absoluteDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the working directory: %w", err)
	}
	return abs, nil
}
