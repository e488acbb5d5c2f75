package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/cli"
	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/install"
	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/internal/term"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// uninstallation is one call of `baton uninstall`.
type uninstallation struct {
	purge, dry, yes, asJSON bool

	out     io.Writer
	places  place.Places
	api     *remote.Client
	changes []registered
	there   place.There
	config  bool // there is a configuration, and it is Baton's
	result  uninstalled
}

// registered is one registration and what becomes of it.
type registered struct {
	install.Registration
	Action string `json:"action"`        // removed, kept
	Why    string `json:"why,omitempty"` // it is kept
	change *install.Change
}

// uninstalled is what it answers.
type uninstalled struct {
	Dry           bool             `json:"dry_run"`
	Sessions      []stoppedSession `json:"sessions"`
	Host          int              `json:"host,omitempty"` // the process that was stopped
	Registrations []registered     `json:"registrations"`
	place.Removed
	Keeps []string `json:"keeps"` // sentences
}

type stoppedSession struct {
	SessionID string `json:"session_id"`
	Principal string `json:"principal"`
	What      string `json:"what"`
	Stopped   string `json:"stopped,omitempty"`
	Proof     string `json:"proof,omitempty"`
}

func newUninstall() *cobra.Command {
	u := uninstallation{out: os.Stdout}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop everything and take away what Baton put on this machine",
		Long: "Says first what will be stopped and removed and what stays. Then it ends every session, of every principal, and the host;\n" +
			"takes the registrations out that baton install made; and removes the sockets. With --purge the journal with all that was\n" +
			"said, the logs and the configuration go as well. What is not Baton's is left, and named. On a terminal it asks before it\n" +
			"does anything.",
		Example: "  baton uninstall --dry-run\n  baton uninstall --purge",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE:    func(c *cobra.Command, _ []string) error { return u.run(c.Context()) },
	}
	c.Flags().BoolVar(&u.purge, "purge", false, "remove the journal, the logs and the configuration too")
	c.Flags().BoolVar(&u.dry, "dry-run", false, "say what would be done, and do nothing")
	c.Flags().BoolVarP(&u.yes, "yes", "y", false, "do not ask, on a terminal either")
	c.Flags().BoolVar(&u.asJSON, "json", false, "print JSON")
	return c
}

func (u *uninstallation) run(ctx context.Context) (err error) {
	if u.api, err = client(); err != nil { // and not from inside of a session
		return err
	}
	if u.places, err = place.Find(os.Getenv); err != nil {
		return err
	}
	u.result = uninstalled{Dry: u.dry, Sessions: []stoppedSession{}, Removed: place.Removed{Paths: []string{}}}
	running, err := u.sessions(ctx)
	if err != nil {
		return err
	}
	if err := u.registrations(); err != nil {
		return err
	}
	if u.there, err = u.places.There(); err != nil {
		return err
	}
	u.config = u.there.Config && u.ownConfig()
	u.keeps()
	u.announce(running)
	if u.dry || u.nothing() {
		return u.report()
	}
	if !u.confirmed() {
		return cli.Usage("nothing was done")
	}
	for _, step := range []func(context.Context) error{u.stopSessions, u.stopHost, u.unregister, u.remove} {
		if err := step(ctx); err != nil {
			return errors.Join(err, u.report())
		}
	}
	return u.report()
}

// sessions finds what lives. Where a host left sessions behind when it died, another is started to end them; a dry run
// starts none.
func (u *uninstallation) sessions(ctx context.Context) (running bool, err error) {
	status, err := u.api.Status(ctx)
	if sessions.CodeOf(err) == sessions.CodeNotRunning {
		if !exists(u.places.Journal()) || u.dry {
			return false, nil
		}
		if _, err := u.api.List(ctx, caller(sessions.DefaultPrincipal), sessions.ListArgs{Limit: 1}); err != nil {
			return false, err
		}
		status, err = u.api.Status(ctx)
	}
	if err != nil {
		return false, err
	}
	u.result.Host = status.PID
	for _, principal := range slices.Sorted(maps.Keys(status.Owners)) {
		if err := everySession(ctx, u.api, principal, func(s *sessions.Session) {
			u.result.Sessions = append(u.result.Sessions, stoppedSession{SessionID: s.SessionID, Principal: principal,
				What: fmt.Sprintf("%s, %s in %s", s.State, s.Runner, s.Cwd)})
		}); err != nil {
			return true, err
		}
	}
	return true, nil
}

// registrations finds the entries: those that were remembered, and those at the places where hosts look by default.
func (u *uninstallation) registrations() error {
	all, err := install.Records{Path: u.places.Installed()}.Load()
	if err != nil {
		return err
	}
	remembered := len(all)
	for _, h := range install.Hosts() {
		file, err := h.File(os.Getenv, runtime.GOOS)
		if err != nil {
			return err
		}
		if r := (install.Registration{Host: h.Name, File: file, Name: "baton"}); !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i, r := range all {
		h, err := install.Find(r.Host)
		if err != nil {
			continue // of a version that knew more
		}
		x := registered{Registration: r, Action: "kept"}
		x.change, err = h.Uninstall(r.File, r.Name, self)
		cmd, _ := h.Registered(r.File, r.Name)
		switch {
		case err != nil && i >= remembered:
			continue // a file that cannot be read holds nothing that was registered here
		case err != nil:
			x.Why = sessions.AsError(err).Error()
		case x.change.Foreign != "":
			x.Why = "it is not Baton's: it " + x.change.Foreign
		case !x.change.Changed():
			continue
		case i >= remembered && cmd.Env["BATON_HOME"] != os.Getenv("BATON_HOME"):
			x.Why = fmt.Sprintf("it is for BATON_HOME %q, this is for %q", cmd.Env["BATON_HOME"], os.Getenv("BATON_HOME"))
		default:
			x.Action = "removed"
		}
		u.changes = append(u.changes, x)
	}
	u.result.Registrations = u.changes
	if u.changes == nil {
		u.result.Registrations = []registered{}
	}
	return nil
}

// nothing tells whether nothing of Baton's is on this machine but the program. A configuration that is not Baton's is none.
func (u *uninstallation) nothing() bool {
	return u.result.Host == 0 && len(u.changes) == 0 && !u.there.Sockets && !u.there.State && !u.config
}

// keeps says what stays.
func (u *uninstallation) keeps() {
	keep := func(format string, args ...any) {
		u.result.Keeps = append(u.result.Keeps, fmt.Sprintf(format, args...))
	}
	if !u.nothing() {
		keep("every `baton mcp` that an MCP host has started runs until that host ends it or is started again; a call to it would start a host anew")
	}
	if u.there.State {
		keep("what agents keep of their own (their conversations, logins and settings), and what they did in their directories")
	}
	switch {
	case u.purge:
	case u.there.State && u.config:
		keep("the journal with everything that was said, the logs and the configuration: %s, %s (--purge removes them)", u.places.State, u.places.Config)
	case u.there.State:
		keep("the journal with everything that was said, and the logs: %s (--purge removes them)", u.places.State)
	case u.config:
		keep("the configuration: %s (--purge removes it)", u.places.Config)
	}
	if self, err := os.Executable(); err == nil {
		keep("the program: %s", self)
	}
}

// announce says what is to happen, before it does.
func (u *uninstallation) announce(running bool) {
	if u.asJSON {
		return
	}
	say := func(format string, args ...any) { fmt.Fprintf(u.out, format+"\n", args...) }
	for _, s := range u.result.Sessions {
		say("stops: session %s of %s, %s", s.SessionID, s.Principal, s.What)
	}
	switch {
	case running:
		say("stops: the host, pid %d", u.result.Host)
	case exists(u.places.Journal()):
		say("stops: no host runs; sessions that one left behind are looked for when this is done, and ended")
	}
	for _, r := range u.changes {
		if r.Action == "removed" {
			say("removes: %s from %s (%s)", r.Name, r.File, r.Host)
		} else {
			say("leaves: %s in %s (%s): %s", r.Name, r.File, r.Host, r.Why)
		}
	}
	if u.there.Sockets {
		say("removes: sockets in %s", u.places.Runtime)
	}
	if u.purge {
		var goes []string
		if u.there.State {
			goes = append(goes, u.places.State)
		}
		if u.config {
			goes = append(goes, u.places.Config)
		}
		if goes != nil {
			say("removes for good: %s", strings.Join(goes, " and "))
		}
		if u.there.Config && !u.config {
			say("leaves: %s: Baton cannot read it as its own", u.places.Config)
		}
	}
	if u.nothing() {
		say("there is nothing to undo: no host, no sessions, no registration, no sockets, no state and no configuration of Baton's")
	}
	for _, k := range u.result.Keeps {
		say("stays: %s", k)
	}
}

// confirmed asks a person.
func (u *uninstallation) confirmed() bool {
	if u.yes || u.asJSON || !term.IsTerminal(os.Stdin) || !term.IsTerminal(os.Stdout) {
		return true
	}
	fmt.Fprint(u.out, "go on? [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

func (u *uninstallation) stopSessions(ctx context.Context) error {
	for i := range u.result.Sessions {
		s := &u.result.Sessions[i]
		res, err := u.api.Close(ctx, caller(s.Principal), sessions.CloseArgs{SessionID: s.SessionID})
		if err != nil {
			return err
		}
		if s.Stopped, s.Proof = res.Stopped, res.Proof; res.Session.State == sessions.SessionClosing {
			return sessions.Errorf(sessions.CodeStopUnconfirmed, "session %s does not end", s.SessionID).Do("look at its processes, then uninstall again; nothing was removed")
		}
	}
	return nil
}

// hostPatience is how long a host that was asked to stop may take.
const hostPatience = 30 * time.Second

func (u *uninstallation) stopHost(ctx context.Context) error {
	if _, err := u.api.Stop(ctx); err != nil && sessions.CodeOf(err) != sessions.CodeNotRunning {
		return err
	}
	return nil
}

func (u *uninstallation) unregister(context.Context) error {
	for i := range u.changes {
		r := &u.changes[i]
		if r.Action != "removed" {
			continue
		}
		if err := r.change.Apply(); err != nil {
			return err
		}
		if err := (install.Records{Path: u.places.Installed()}).Remove(r.Registration); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the files away while it holds the place of the host, so that none starts meanwhile.
func (u *uninstallation) remove(ctx context.Context) (err error) {
	if exists(u.places.State) { // else there is nothing to be the host of
		claim, e := u.claim(ctx)
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, claim.Release()) }()
	}
	if err := u.places.RemoveRuntime(ctx, &u.result.Removed); err != nil || !u.purge {
		return err
	}
	return u.places.RemoveState(&u.result.Removed, u.config)
}

// ownConfig tells whether the configuration is one that Baton reads: BATON_HOME may be a folder of another program's, which
// has a config.toml too.
func (u *uninstallation) ownConfig() bool {
	_, err := config.Load(u.places.Config)
	return err == nil
}

// claim waits for the host to be gone.
func (u *uninstallation) claim(ctx context.Context) (*remote.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		claim, err := remote.Take(u.places)
		if !errors.Is(err, local.ErrLocked) {
			return claim, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, sessions.Errorf(sessions.CodeTimeout, "the host does not end, or another one was started").
				Do("end the programs that have `baton mcp` running, then uninstall again")
		}
	}
}

func (u *uninstallation) report() error {
	if u.asJSON {
		return json.NewEncoder(u.out).Encode(u.result)
	}
	if u.dry {
		fmt.Fprintln(u.out, "nothing was done (--dry-run)")
		return nil
	}
	for _, s := range u.result.Sessions {
		if s.Stopped != "" {
			fmt.Fprintf(u.out, "stopped: session %s, end of its processes %s, proof: %s\n", s.SessionID, s.Stopped, s.Proof)
		}
	}
	for _, p := range u.result.Paths {
		fmt.Fprintf(u.out, "removed: %s\n", p)
	}
	for _, p := range u.result.Left {
		fmt.Fprintf(u.out, "left: %s\n", p)
	}
	return nil
}

// exists tells whether there is anything at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
