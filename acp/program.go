package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Program is what a terminal runs.
type Program struct {
	Argv   []string // Argv[0] is absolute
	Dir    string
	Env    []string
	Output *os.File // for both streams; the starter's to close once it has it
}

// Process is a running program. The bridge's reaper makes them.
type Process interface {
	Done() <-chan struct{}                // closed when it was reaped
	Status() (exit int, signal string)    // once Done is closed; exit is -1 where a signal ended it
	SignalGroup(sig syscall.Signal) error // to it and what it started in its process group
}

// terminalSpec is terminal/create.
type terminalSpec struct {
	SessionID string   `json:"sessionId"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Cwd       string   `json:"cwd"`
	Limit     *uint64  `json:"outputByteLimit"`
	Env       []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
}

var (
	errNoCommand = errors.New("command is missing")
	errBadEnv    = errors.New("env holds what is no variable")
	errNoProgram = errors.New("no such program in PATH")
	errNoDir     = errors.New("cwd is no folder of the workspace")
)

// program reads what a terminal is to run, on top of the agent's own environment. dir is the session's cwd.
//
// A command without arguments that is no program is a line for the shell: that is how Zed runs all of them, and agents
// are written against it.
func (s terminalSpec) program(environ []string, dir string) (Program, error) {
	p := Program{Dir: dir, Env: environ}
	if s.Cwd != "" {
		p.Dir = filepath.Clean(s.Cwd)
	}
	for _, v := range s.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) {
			return p, errBadEnv
		}
		p.Env = append(p.Env[:len(p.Env):len(p.Env)], v.Name+"="+v.Value)
	}
	if strings.TrimSpace(s.Command) == "" || strings.ContainsRune(s.Command+strings.Join(s.Args, ""), 0) {
		return p, errNoCommand
	}
	found, err := lookPath(s.Command, p.Dir, p.Env)
	switch {
	case err == nil:
		p.Argv = append([]string{found}, s.Args...)
	case len(s.Args) == 0:
		p.Argv = []string{"/bin/sh", "-c", s.Command}
	default:
		return p, err
	}
	return p, nil
}

// lookPath finds a program as a shell would, by the PATH of environ, in which the last entry of a name counts.
func lookPath(name, dir string, environ []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	list := ""
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			list = value
		}
	}
	for _, folder := range filepath.SplitList(list) {
		if file := filepath.Join(folder, name); filepath.IsAbs(folder) && executable(file) == nil {
			return file, nil
		}
	}
	return "", errNoProgram
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}
