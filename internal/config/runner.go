package config

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// EmbeddedAgent is the program word of a command that means the scripted agent inside the running binary.
const EmbeddedAgent = "baton:agent"

// Runner is a runner with its program found.
type Runner struct {
	Name     string
	Protocol string   // AppServer, ACP
	Argv     []string // what to execute; Argv[0] is absolute
	// Executable is the real path of the program: what to show, to bind into a sandbox, and whose folder leads PATH.
	Executable string
	Embedded   bool              // the running binary itself
	Env        map[string]string // of the configuration
	Models     []string          // of the configuration
	Pass       []string          // names of variables that it gets beside those that every agent gets
	Source     string            // where the program was named: the variable, the file, or PATH
}

// Variable is the environment variable that names a runner's executable.
func Variable(name string) string {
	return "BATON_RUNNER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Names lists the runners there are: the built-in ones, then those of the configuration.
func (c *Config) Names() []string {
	names := slices.Sorted(maps.Keys(builtin))
	for _, name := range slices.Sorted(maps.Keys(c.Runners)) {
		if _, known := builtin[name]; !known {
			names = append(names, name)
		}
	}
	return names
}

// Resolve finds a runner's program for a session in cwd ("" outside of any session), by the environment of the caller:
// BATON_RUNNER_<NAME>, else the configuration, else PATH. Whatever names the program first must be right: a wrong
// value is an error and not a reason to look further.
func (c *Config) Resolve(name, cwd string, getenv func(string) string) (Runner, error) {
	own, known := builtin[name]
	custom, configured := c.Runners[name]
	if !known && !configured {
		return Runner{}, sessions.Errorf(sessions.CodeRunnerMissing, "there is no runner %.80q", name).
			Do("choose one of %s, or add [runners.NAME] to %s", strings.Join(c.Names(), ", "), c.file()).
			With("runners", c.Names())
	}
	r := Runner{Name: name, Protocol: own.Protocol, Env: custom.Env, Models: custom.Models, Pass: own.pass}
	if custom.Protocol != "" {
		r.Protocol = custom.Protocol
	}
	s := search{name: name, cwd: cwd, getenv: getenv, install: own.install, file: c.file()}
	args := own.args
	if len(custom.Command) > 0 {
		args = custom.Command[1:]
	}

	var found string
	var err error
	switch value := getenv(Variable(name)); {
	case value == EmbeddedAgent:
		return embedded(r, Variable(name), []string{r.Protocol})
	case value != "":
		s.source = Variable(name)
		found, err = s.variable(value)
	case len(custom.Command) > 0 && custom.Command[0] == EmbeddedAgent:
		return embedded(r, c.file(), args)
	case len(custom.Command) > 0:
		s.source = c.file()
		found, err = s.configured(custom.Command[0])
	default:
		s.source = "PATH"
		found, err = s.path(own.program)
	}
	if err != nil {
		return Runner{}, err
	}
	program, executable := s.through(found)
	r.Argv, r.Executable, r.Source = append([]string{program}, args...), executable, s.source
	return r, nil
}

// Variables is what the agent gets beside what every agent gets: what it is known to need of the caller's environment,
// and over it the configuration's.
func (r Runner) Variables(getenv func(string) string) map[string]string {
	vars := map[string]string{}
	maps.Copy(vars, builtin[r.Name].env)
	for _, name := range r.Pass {
		if v := getenv(name); v != "" {
			vars[name] = v
		}
	}
	maps.Copy(vars, r.Env)
	return vars
}

// embedded starts through /proc/self/exe where there is one: that works when the binary was replaced or deleted, and
// from inside any mount namespace.
func embedded(r Runner, source string, args []string) (Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return Runner{}, sessions.Errorf(sessions.CodeRunnerMissing, "runner %s: the running binary is not known: %w", r.Name, err)
	}
	program := self
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe"
	}
	r.Argv, r.Executable, r.Embedded, r.Source = append([]string{program, "agent"}, args...), self, true, source
	return r, nil
}

func (c *Config) file() string {
	if c.path == "" {
		return "the configuration"
	}
	return c.path
}

// real is the path without symlinks; the path itself when it cannot be resolved.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}
