// Package place says where Baton keeps things. It only computes paths from an environment; Make is its one effect.
//
// Two state directories never share a socket: under BATON_HOME the sockets lie below it, and else the host's socket
// carries a digest of the state directory's canonical path.
package place

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// Places is where one Baton keeps things: one user and one state directory. Every path in it is absolute and clean.
type Places struct {
	Home    string // BATON_HOME, "" when it is not set
	State   string // what must survive: journal, lock, logs, spill files
	Runtime string // sockets
	Config  string // the configuration file; it need not exist
}

// Find computes the places of an environment. Nothing is created and nothing is checked but the form of the values:
// BATON_HOME must be absolute; XDG variables that are not absolute are ignored, as their specification asks.
func Find(getenv func(string) string) (Places, error) {
	if home := getenv("BATON_HOME"); home != "" {
		if !filepath.IsAbs(home) {
			return Places{}, sessions.Errorf(sessions.CodeInvalidParams, "BATON_HOME is %q, which is not an absolute path", home).
				Do("set BATON_HOME to an absolute path, or unset it")
		}
		home = filepath.Clean(home)
		// The folder named by BATON_HOME may be an existing one that others can read, so what is private lies one
		// level below it.
		return Places{Home: home, State: filepath.Join(home, "state"), Runtime: filepath.Join(home, "run"),
			Config: filepath.Join(home, "config.toml")}, nil
	}
	state, err := xdg(getenv, "XDG_STATE_HOME", ".local/state")
	if err != nil {
		return Places{}, err
	}
	config, err := xdg(getenv, "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return Places{}, err
	}
	return Places{State: filepath.Join(state, "baton"), Runtime: runtimeDir(getenv),
		Config: filepath.Join(config, "baton", "config.toml")}, nil
}

func xdg(getenv func(string) string, name, below string) (string, error) {
	if dir := getenv(name); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", sessions.Errorf(sessions.CodeInvalidParams, "HOME is %q and neither BATON_HOME nor %s is an absolute path", home, name).
			Do("set HOME or BATON_HOME to an absolute path")
	}
	return filepath.Join(home, below), nil
}

// runtimeDir falls back to /tmp when XDG_RUNTIME_DIR is not this user's, which is what su and sudo -E leave behind.
func runtimeDir(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
				return filepath.Join(dir, "baton")
			}
		}
	}
	return "/tmp/baton-" + strconv.Itoa(os.Getuid())
}

// Logs is the folder of the log files.
func (p Places) Logs() string { return filepath.Join(p.State, "logs") }

// HostLog is the log file of the host.
func (p Places) HostLog() string { return filepath.Join(p.Logs(), "host.log") }

// Journal is the journal's database file.
func (p Places) Journal() string { return filepath.Join(p.State, "journal.db") }

// Lock is the file whose lock makes a process the host of this state directory.
func (p Places) Lock() string { return filepath.Join(p.State, "host.lock") }

// StartLock is the file whose lock lets one of many front ends start a host.
func (p Places) StartLock() string { return filepath.Join(p.State, "start.lock") }

// Token is the file with the secret that calls to the host carry.
func (p Places) Token() string { return filepath.Join(p.State, "token") }

// HostSocket is the host's unix socket.
func (p Places) HostSocket() string {
	if p.Home != "" {
		return filepath.Join(p.Runtime, "host.sock")
	}
	return filepath.Join(p.Runtime, "host-"+p.Identity()+".sock")
}

// BridgeSocket is the unix socket of the bridge of a generation.
func (p Places) BridgeSocket(generation string) string {
	return filepath.Join(p.Runtime, fileName(generation)+".sock")
}

// Spill is the file in which the bridge of a generation leaves its frames when it ends without a host.
func (p Places) Spill(generation string) string {
	return filepath.Join(p.State, "spill", fileName(generation))
}

// BridgeLog is the log file of the bridge of a generation.
func (p Places) BridgeLog(generation string) string {
	return filepath.Join(p.Logs(), "bridge-"+fileName(generation)+".log")
}

// Private are the folders that no agent may see under any policy.
func (p Places) Private() []string { return []string{p.State, p.Runtime} }

// Identity names the state directory: the same for every path that leads to it, different for any two.
func (p Places) Identity() string {
	sum := sha256.Sum256([]byte(canonical(p.State)))
	return hex.EncodeToString(sum[:8])
}

// Make creates the folders, for this user alone, and refuses those that others own or can enter.
func (p Places) Make() error {
	if err := p.Sound(); err != nil {
		return err
	}
	for _, dir := range []string{p.State, p.Runtime, p.Logs(), filepath.Join(p.State, "spill")} {
		if err := local.MakePrivate(dir); err != nil {
			return fmt.Errorf("baton's folders: %w", err)
		}
	}
	return nil
}

// Sound refuses a BATON_HOME in which others could put another configuration, or other folders, in the place of ours. One
// that does not exist yet is sound.
func (p Places) Sound() error {
	if p.Home == "" {
		return nil
	}
	info, err := os.Stat(p.Home)
	if err != nil {
		return nil // what is made next says why not
	}
	mode := info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() && st.Uid != 0 {
		return sessions.Errorf(sessions.CodeInvalidParams, "BATON_HOME is %s, which belongs to uid %d, who can put another configuration there", p.Home, st.Uid).
			Do("set BATON_HOME to a folder of your own")
	}
	if mode&0o022 != 0 {
		return sessions.Errorf(sessions.CodeInvalidParams, "BATON_HOME is %s, whose mode %#o lets others put another configuration there", p.Home, mode).
			Do("chmod go-w %s, or set BATON_HOME to a folder of your own", p.Home)
	}
	return nil
}

// fileName makes a generation a file name. Generations are UUIDs that the host minted; anything else, which only a
// damaged record can hold, is hashed so that it can name no other file.
func fileName(generation string) string {
	if sessions.CheckUUID("generation", generation) == nil {
		return generation
	}
	sum := sha256.Sum256([]byte(generation))
	return "x" + hex.EncodeToString(sum[:16])
}

// canonical resolves the symlinks of the part of the path that exists.
func canonical(path string) string {
	rest := ""
	for dir := path; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = parent
	}
}
