package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// finding is what doctor says of one part. Fix is empty where nothing is wrong.
type finding struct {
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Absent bool   `json:"absent,omitempty"` // it is not there, which is no fault of its own
	Says   string `json:"says"`
	Fix    string `json:"fix,omitempty"`
}

func newDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say of every part whether it works here, and what to do where it does not",
		Long: "Say of every part whether it works here, and what to do where it does not. Nothing is started and nothing is changed.\n" +
			"Exit status 1 when a part does not work, or when there is no agent at all: Baton can then do nothing but its demo.",
		Example: "  baton doctor",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			found := examine(c.Context())
			if err := report(os.Stdout, found, asJSON); err != nil {
				return err
			}
			return verdict(found)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one part a line")
	return c
}

// verdict is the end of the command. Without any agent it is no success, although nothing is broken: who sets a machine up
// asks whether a session can be had there.
func verdict(found []finding) error {
	var ill []string
	for _, f := range found {
		if !f.OK && !f.Absent {
			ill = append(ill, f.Part)
		}
	}
	switch {
	case ill == nil:
		return nil
	case slices.Equal(ill, []string{noAgents}):
		return codedError{errors.New("all else works here, but no agent is installed yet; see above"), exitError}
	}
	return codedError{fmt.Errorf("not everything works: %s; see above", strings.Join(ill, ", ")), exitError}
}

func report(w io.Writer, found []finding, asJSON bool) error {
	e := json.NewEncoder(w)
	for _, f := range found {
		if asJSON {
			if err := e.Encode(f); err != nil {
				return err
			}
			continue
		}
		mark := "ok  "
		switch {
		case f.Absent:
			mark = "none"
		case !f.OK:
			mark = "FAIL"
		}
		fmt.Fprintf(w, "%s  %-12s %s\n", mark, f.Part, f.Says)
		if f.Fix != "" {
			for line := range strings.Lines(f.Fix) {
				fmt.Fprintf(w, "      %-12s %s\n", "", strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return nil
}

// examine looks at each part.
func examine(ctx context.Context) []finding {
	can, forced := sandbox.Probe(ctx), sandbox.Rung(os.Getenv(sandbox.ForceEnv))
	found := containment(can, forced, readHere)
	places, err := place.Find(os.Getenv)
	if err != nil {
		return append(found, failed("places", err))
	}
	found = append(found, folders(places), configuration(places), hiding(places, can.Forced(forced)), daemon(ctx, places))
	return append(found, agents(places)...)
}

func failed(part string, err error) finding {
	e := sessions.AsError(err).Whole()
	return finding{Part: part, Says: e.Message, Fix: e.Action}
}

func folders(p place.Places) finding {
	if err := p.Sound(); err != nil {
		return failed("folders", err)
	}
	for _, dir := range p.Private() {
		d, err := local.OpenPrivate(dir)
		if err == nil {
			d.Close()
		} else if !errors.Is(err, os.ErrNotExist) {
			return failed("folders", err)
		}
		if at, err := writable(dir); err != nil {
			return finding{Part: "folders", Says: fmt.Sprintf("%s cannot be written: %v in %s", dir, err, at),
				Fix: "give yourself the right to write there, or mount it writable; or set BATON_HOME, or XDG_STATE_HOME and XDG_RUNTIME_DIR, to where you may"}
		}
	}
	if err := local.Reachable(p.HostSocket()); err != nil && !errors.Is(err, os.ErrNotExist) { // the first host makes it
		return failed("folders", err)
	}
	return finding{Part: "folders", OK: true, Says: "state in " + p.State + ", sockets in " + p.Runtime}
}

// writable tells whether a folder can be written, or made where it is missing, and where it is decided.
func writable(dir string) (at string, err error) {
	for at = dir; ; at = filepath.Dir(at) {
		err = unix.Access(at, unix.W_OK|unix.X_OK)
		if !errors.Is(err, os.ErrNotExist) || at == "/" {
			return at, err
		}
	}
}

func configuration(p place.Places) finding {
	if _, err := config.Load(p.Config); err != nil {
		return failed("config", err)
	}
	says := p.Config
	if _, err := os.Stat(p.Config); errors.Is(err, os.ErrNotExist) {
		says += " (not there; nothing needs it)"
	}
	return finding{Part: "config", OK: true, Says: says}
}

func daemon(ctx context.Context, p place.Places) finding {
	o := remote.At(p)
	o.Start = nil
	s, err := remote.New(o).Status(ctx)
	if errors.Is(err, remote.ErrNoHost) {
		return finding{Part: "host", OK: true, Says: "none runs; it starts when it is needed"}
	}
	if err != nil {
		return failed("host", err)
	}
	return finding{Part: "host", OK: true, Says: fmt.Sprintf("pid %d, version %s, %d live sessions", s.PID, s.Version, s.Live)}
}

// noAgents is the part that is missing where no agent is installed.
const noAgents = "runners"

// agents says of each runner whether its program can be found; it is not started. Only the absence of all is a fault.
func agents(p place.Places) []finding {
	cfg, err := config.Load(p.Config)
	if err != nil {
		return nil // said before
	}
	var found []finding
	installed := 0
	shown := cfg.Shown(os.Getenv)
	for _, name := range shown {
		r, err := cfg.Resolve(name, "/", os.Getenv)
		f := finding{Part: "runner " + name, OK: true, Says: r.Executable}
		if err != nil {
			f = failed(f.Part, err)
			f.Says = strings.TrimPrefix(f.Says, f.Part+": ")
			f.Absent = sessions.CodeOf(err) == sessions.CodeRunnerMissing // a runner that nobody installed is no fault
		} else {
			installed++
		}
		found = append(found, f)
	}
	if installed == 0 {
		others := slices.DeleteFunc(cfg.Names(), func(name string) bool { return slices.Contains(shown, name) })
		found = append(found, finding{Part: noAgents, Says: "no agent is installed, and Baton runs those that are",
			Fix: fmt.Sprintf("install one of those above, and log in with it; Baton also knows %s\n`baton demo` works without any", strings.Join(others, ", "))})
	}
	return found
}
