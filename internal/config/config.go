// Package config reads Baton's configuration file and finds the executables of runners.
//
// The file is read strictly: an unknown key, a wrong type or a value out of range is an error that names the key and
// its line, since a setting that is silently ignored is one that the user believes to hold. A missing file is an empty
// configuration.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/batonmcp/baton/sessions"
)

// DefaultIdleExit is how long a host without a live session stays by default.
const DefaultIdleExit = 10 * time.Minute

// Protocols that a runner can speak.
const (
	AppServer = "app-server"
	ACP       = "acp"
)

// Config is the configuration file.
type Config struct {
	Host    Host              `toml:"host"`
	Journal Journal           `toml:"journal"`
	Sandbox Sandbox           `toml:"sandbox"`
	Runners map[string]Custom `toml:"runners"`

	path string
}

// Host is the section of the daemon.
type Host struct {
	// IdleExit is how long a host without a live session stays; zero: DefaultIdleExit, "never" in the file: for good.
	IdleExit Duration `toml:"idle_exit"`
	// IdleClose is how long nothing may happen in a session that has nothing to do before it is closed; zero, or "never" in
	// the file: it stays open.
	IdleClose Duration `toml:"idle_close"`
	// HandshakeTimeout is how long an agent may take to start and to confirm what was asked; zero: 60 s.
	HandshakeTimeout Duration `toml:"handshake_timeout"`
	// OrphanGrace is how long a session goes on without any host once its turn has ended; zero: 15 min.
	OrphanGrace Duration `toml:"orphan_grace"`
	// AllowUnconfinedFullAccess permits danger-full-access where Baton's own folders cannot be masked from the agent.
	AllowUnconfinedFullAccess bool `toml:"allow_unconfined_full_access"`
}

// Journal is the section of what is kept.
type Journal struct {
	// KeepEvents is how many events of each session are kept; zero: all. What is cut shows as a gap.
	KeepEvents Count `toml:"keep_events"`
	// MaxBytes is the size of the journal above which the oldest events of long sessions are cut; zero: no bound.
	MaxBytes Count `toml:"max_bytes"`
}

// Count is a number that is not negative.
type Count int64

// Custom is a section runners.NAME: a further runner, or what is different about a built-in one.
type Custom struct {
	Protocol string            `toml:"protocol"` // app-server or acp; of a built-in runner it may be left out
	Command  []string          `toml:"command"`  // program and arguments; of a built-in runner it may be left out
	Env      map[string]string `toml:"env"`      // further environment of the agent
	Models   []string          `toml:"models"`   // models to show for an agent that cannot list them
}

// Duration is a time.Duration in the notation of time.ParseDuration.
type Duration time.Duration

// Never is the idle_exit of a host that stays for good.
const Never = Duration(-1)

// Idle is how long a host without a live session stays; negative: for good.
func (h Host) Idle() time.Duration {
	if h.IdleExit == 0 {
		return DefaultIdleExit
	}
	return time.Duration(h.IdleExit)
}

// UnmarshalText reads a duration that is positive, or "never".
func (d *Duration) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*d = Never
		return nil
	}
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no duration like 90s, 10m or 2h, nor never", text)
	}
	*d = Duration(v)
	return nil
}

// Load reads the file.
func Load(path string) (*Config, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Config{path: path}, nil
	}
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "cannot read the configuration: %w", err)
	}
	return Parse(path, b)
}

// Parse reads the text of a file; path is for its errors.
func Parse(path string, text []byte) (*Config, error) {
	c := &Config{path: path}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, refuse(path, describe(err))
	}
	if err := c.check(text); err != nil {
		return nil, refuse(path, err.Error())
	}
	return c, nil
}

func refuse(path, what string) error {
	return sessions.Errorf(sessions.CodeInvalidParams, "%s:%s", path, what).Do("correct the configuration file, or move it away")
}

// describe gives the line and the key of what the decoder refused.
func describe(err error) string {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var lines []string
		for _, e := range unknown.Errors {
			row, _ := e.Position()
			lines = append(lines, fmt.Sprintf("%d: unknown key %s", row, strings.Join(e.Key(), ".")))
		}
		return strings.Join(lines, "; ")
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		row, _ := wrong.Position()
		key := ""
		if len(wrong.Key()) > 0 {
			key = strings.Join(wrong.Key(), ".") + ": "
		}
		// What follows in a type error are names of our own types.
		what, _, _ := strings.Cut(strings.TrimPrefix(wrong.Error(), "toml: "), " into struct field")
		return fmt.Sprintf("%d: %s%s", row, key, what)
	}
	return " " + strings.TrimPrefix(err.Error(), "toml: ")
}

var runnerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// check refuses what the types let through.
func (c *Config) check(text []byte) error {
	if c.Journal.KeepEvents < 0 || c.Journal.MaxBytes < 0 {
		return fmt.Errorf("journal: keep_events is %d and max_bytes is %d; neither can be negative", c.Journal.KeepEvents, c.Journal.MaxBytes)
	}
	if err := c.Sandbox.check(); err != nil {
		return fmt.Errorf(" %w", err)
	}
	variables := map[string]string{}
	for name := range builtin {
		variables[Variable(name)] = name
	}
	for _, name := range slices.Sorted(maps.Keys(c.Runners)) {
		if err := c.Runners[name].check(name); err != nil {
			return fmt.Errorf("%srunners.%w", line(text, name), err)
		}
		if other, taken := variables[Variable(name)]; taken && other != name {
			return fmt.Errorf("%srunners.%s: the variable %s belongs to runner %s", line(text, name), name, Variable(name), other)
		}
		variables[Variable(name)] = name
	}
	return nil
}

func (r Custom) check(name string) error {
	own, known := builtin[name]
	switch {
	case !runnerName.MatchString(name):
		return fmt.Errorf("%s: the name does not match %s", name, runnerName)
	case r.Protocol == "" && !known:
		return fmt.Errorf("%s.protocol is missing: it is %q or %q", name, ACP, AppServer)
	case r.Protocol != "" && r.Protocol != ACP && r.Protocol != AppServer:
		return fmt.Errorf("%s.protocol is %q, not %q or %q", name, r.Protocol, ACP, AppServer)
	case len(r.Command) == 0 && (!known || r.Command != nil):
		return fmt.Errorf("%s.command is missing or empty: it is the program and its arguments", name)
	case len(r.Command) == 0 && r.Protocol != "" && r.Protocol != own.Protocol:
		return fmt.Errorf("%s.command is missing: %s itself speaks %q", name, name, own.Protocol)
	case len(r.Command) > 0 && r.Command[0] == "":
		return fmt.Errorf("%s.command names an empty program", name)
	case slices.ContainsFunc(r.Command, func(word string) bool { return strings.ContainsRune(word, 0) }):
		return fmt.Errorf("%s.command holds a zero byte", name)
	}
	for _, v := range slices.Sorted(maps.Keys(r.Env)) {
		if v == "" || strings.ContainsAny(v, "=\x00") || strings.ContainsRune(r.Env[v], 0) {
			return fmt.Errorf("%s.env.%q is no environment variable", name, v)
		}
	}
	return nil
}

// line finds where a runner's section begins, as "<line>: "; " " when it is written in a way it does not know.
func line(text []byte, name string) string {
	header := regexp.MustCompile(`^\s*\[\s*runners\s*\.\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*[.\]]`)
	n := 0
	for l := range bytes.Lines(text) {
		if n++; header.Match(l) {
			return fmt.Sprintf("%d: ", n)
		}
	}
	return " "
}
