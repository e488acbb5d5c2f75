package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/internal/install"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// installation is one call of `baton install`.
type installation struct {
	file, name, program           string
	print, dry, uninstall, asJSON bool
	prove, force                  bool
	host                          install.Host
	out                           io.Writer
}

// installed is what it answers.
type installed struct {
	Host    string           `json:"host"`
	File    string           `json:"file"`
	Name    string           `json:"name"`
	Action  string           `json:"action"` // installed, uninstalled, unchanged, foreign: an entry that is not Baton's was left
	Foreign string           `json:"foreign,omitempty"`
	Command *install.Command `json:"command,omitempty"`
	Backup  string           `json:"backup,omitempty"`
	Proof   *proof           `json:"proof,omitempty"`
}

func newInstall() *cobra.Command {
	var names []string
	for _, h := range install.Hosts() {
		names = append(names, h.Name)
	}
	i := installation{out: os.Stdout}
	c := &cobra.Command{
		Use:   "install HOST [-- ARGUMENT...]",
		Short: "Register Baton with an MCP host, and prove that it works there",
		Long: "Writes Baton into the configuration of an MCP host, and keeps everything else in it as it is, byte for byte. The old\n" +
			"file stays beside it. Then exactly what is registered is started: it must answer as an MCP server, reach its host, and\n" +
			"take one turn with a scripted agent that is part of it, in a folder of its own. Where it does not, the old file comes\n" +
			"back. Arguments behind -- go to `baton mcp`; without them those of an earlier installation stay.\n\n" +
			"HOST is one of " + strings.Join(names, ", ") + ".",
		Example:   "  baton install claude-code\n  baton install codex --dry-run\n  baton install vscode --file .vscode/mcp.json\n  baton install cursor --uninstall",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{sessions.Errorf(sessions.CodeInvalidParams, "no host was named").Do("name one of: %s", strings.Join(names, ", "))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.ArgsLenAtDash() != 1 && len(args) > 1 {
				return usageError{fmt.Errorf("one host at a time; arguments of `baton mcp` stand behind --")}
			}
			if i.host, err = install.Find(args[0]); err != nil {
				return err
			}
			return i.run(c.Context(), args[1:])
		},
	}
	f := c.Flags()
	f.StringVar(&i.file, "file", "", "the configuration file, instead of the user's own (a project's, for example)")
	f.StringVar(&i.name, "name", "baton", "the name of the server in the configuration")
	f.StringVar(&i.program, "command", "", "the program to register; by default this one")
	f.BoolVar(&i.print, "print", false, "print the entry alone, as a configuration; nothing is read or written")
	f.BoolVar(&i.dry, "dry-run", false, "print what would change, as a diff that git apply and patch -p1 take in /; nothing is written")
	f.BoolVar(&i.uninstall, "uninstall", false, "take the entry out again, where it starts Baton or --command")
	f.BoolVar(&i.prove, "prove", true, "start what is registered, and take the change back where it does not work")
	f.BoolVar(&i.force, "force", false, "put Baton in the place of a server of that name that is not Baton")
	f.BoolVar(&i.asJSON, "json", false, "print JSON")
	return c
}

func (i *installation) run(ctx context.Context, args []string) error {
	cmd, err := i.command(args)
	if err != nil && !i.uninstall {
		return err
	}
	if i.print {
		text, err := i.host.Print(i.name, withDefault(cmd))
		if err != nil {
			return err
		}
		_, err = io.WriteString(i.out, text)
		return err
	}
	if os.Getenv(sandbox.MarkerEnv) != "" {
		return errInside
	}
	if i.file == "" {
		if i.file, err = i.host.File(os.Getenv, runtime.GOOS); err != nil {
			return err
		}
	}
	if i.file, err = filepath.Abs(i.file); err != nil {
		return err
	}
	var change *install.Change
	if i.uninstall {
		change, err = i.host.Uninstall(i.file, i.name, cmd.Program)
	} else {
		change, err = i.host.Install(i.file, i.name, cmd)
	}
	if err != nil {
		return err
	}
	if !i.uninstall && change.Foreign != "" && !i.force {
		return sessions.Errorf(sessions.CodeInvalidParams, "%s has a server %s already, which %s: that is not Baton, and nothing was changed", i.file, i.name, change.Foreign).
			Do("register Baton under another --name, or put it in the place of that one with --force (the old file is kept)")
	}
	if i.dry {
		return i.difference(change)
	}
	return i.apply(ctx, change)
}

// apply makes the change and proves it. A change that does not work is taken back.
func (i *installation) apply(ctx context.Context, change *install.Change) error {
	if err := change.Apply(); err != nil {
		return err
	}
	done := installed{Host: i.host.Name, File: i.file, Name: i.name, Action: "unchanged", Backup: change.Backup}
	if change.Changed() {
		done.Action = "installed"
	}
	if i.uninstall {
		switch {
		case change.Changed():
			done.Action = "uninstalled"
		case change.Foreign != "":
			done.Action, done.Foreign = "foreign", change.Foreign
		}
		if change.Foreign == "" {
			i.remember(install.Records.Remove)
		}
		if err := i.report(done); err != nil || i.asJSON {
			return err
		}
		return i.reportForeign(change)
	}
	back := func(err error) error {
		if rerr := change.Revert(); rerr != nil {
			return errors.Join(err, rerr)
		}
		return fmt.Errorf("%s is as it was: %w", i.file, err)
	}
	cmd, err := i.host.Registered(i.file, i.name)
	if err != nil {
		return back(err)
	}
	done.Command = &cmd
	if i.prove {
		if done.Proof, err = prove(ctx, i.host.Environ(os.Environ(), cmd), cmd); err != nil {
			return back(sessions.Errorf(sessions.CodeInternal, "%s does not work when %s starts it: %w", quoted(cmd), i.host.Title, err).
				Do("see what `baton doctor` says; --prove=false installs it without a proof"))
		}
	}
	i.remember(install.Records.Add)
	return i.report(done)
}

// remember keeps what was registered, for `baton uninstall`. What is not kept is found by it where the host has its
// configuration by default.
func (i *installation) remember(how func(install.Records, install.Registration) error) {
	places, err := place.Find(os.Getenv)
	if err == nil {
		err = places.Make()
	}
	if err == nil {
		err = how(install.Records{Path: places.Installed()}, install.Registration{Host: i.host.Name, File: i.file, Name: i.name})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "baton: the registration could not be remembered for baton uninstall: %v\n", err)
	}
}

// command is what gets registered: this program under the path by which it was called, where that path is a lasting one.
func (i *installation) command(args []string) (cmd install.Command, err error) {
	if len(args) > 0 {
		cmd.Args = append([]string{"mcp"}, args...)
	}
	if home := os.Getenv("BATON_HOME"); home != "" { // the same state as here
		cmd.Env = map[string]string{"BATON_HOME": home}
	}
	if cmd.Program = i.program; cmd.Program != "" {
		cmd.Program, err = filepath.Abs(cmd.Program)
		return cmd, err
	}
	self, err := os.Executable()
	if err != nil {
		return cmd, err
	}
	cmd.Program = self
	if strings.Contains(self, string(filepath.Separator)+"go-build") {
		return cmd, sessions.Errorf(sessions.CodeUnsupported, "%s is a program that go run made and removes again", self).
			Do("go install ./cmd/baton, and call the program that it makes; or name one with --command")
	}
	if called, err := exec.LookPath(os.Args[0]); err == nil { // a link of a package manager outlives the version it leads to
		if called, err = filepath.Abs(called); err == nil && sameFile(called, self) {
			cmd.Program = called
		}
	}
	return cmd, nil
}

func withDefault(c install.Command) install.Command {
	if c.Args == nil {
		c.Args = []string{"mcp"}
	}
	return c
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, berr := os.Stat(b)
	return err == nil && berr == nil && os.SameFile(x, y)
}

func (i *installation) report(done installed) error {
	if i.asJSON {
		return json.NewEncoder(i.out).Encode(done)
	}
	fmt.Fprintf(i.out, "%s: %s: %s\n", i.host.Title, done.File, done.Action)
	if done.Backup != "" {
		fmt.Fprintf(i.out, "  the old file is %s\n", done.Backup)
	}
	if done.Command != nil {
		fmt.Fprintf(i.out, "  %s starts %s\n", done.Name, quoted(*done.Command))
	}
	if p := done.Proof; p != nil {
		fmt.Fprintf(i.out, "  proof: MCP %s with %d tools after %d ms; its host answered; a scripted agent took a turn and was closed (%s), %d ms in all\n",
			p.Protocol, p.Tools, p.HandshakeMS, p.Stopped, p.TotalMS)
	}
	if done.Action == "installed" {
		fmt.Fprintf(i.out, "  next: %s\n", i.host.Restart)
	}
	return nil
}

func quoted(c install.Command) string {
	words := append([]string{c.Program}, c.Args...)
	for i, w := range words {
		if strings.ContainsAny(w, " \t'\"\\$") || w == "" {
			words[i] = fmt.Sprintf("%q", w)
		}
	}
	return strings.Join(words, " ")
}

// difference prints the lines that would change.
func (i *installation) difference(c *install.Change) error {
	if i.asJSON {
		return json.NewEncoder(i.out).Encode(struct {
			Host   string  `json:"host"`
			File   string  `json:"file"`
			Before *string `json:"before"`
			After  *string `json:"after"`
			Note   string  `json:"foreign,omitempty"`
		}{i.host.Name, c.File, textOf(c.Before), textOf(c.After), c.Foreign})
	}
	if c.Changed() {
		_, err := io.WriteString(i.out, c.Diff())
		return err
	}
	fmt.Fprintf(i.out, "%s: nothing would change\n", c.File)
	return i.reportForeign(c)
}

// reportForeign says which entry is not Baton's to take out.
func (i *installation) reportForeign(c *install.Change) error {
	if c.Foreign == "" {
		return nil
	}
	_, err := fmt.Fprintf(i.out, "  %s there %s: that is not Baton, and stays; take it out by hand, or see --name and --command\n", i.name, c.Foreign)
	return err
}

func textOf(b []byte) *string {
	if b == nil {
		return nil
	}
	return new(string(b))
}

// proveLimit bounds a proof.
const proveLimit = time.Minute
