package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// accountVariables decide which account and which history an agent uses.
var accountVariables = []string{"HOME", "CODEX_HOME", "CODEX_SQLITE_HOME", "CURSOR_CONFIG_DIR", "CURSOR_DATA_DIR"}

// furtherAccountVariables do so for single agents.
var furtherAccountVariables = []string{"CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR"}

// account is the digest of the account context of an environment: of folders by the paths without symbolic links, so that
// one that comes to lead elsewhere is another. It holds paths, no secrets.
func account(environ []string) string {
	return accountBy(environ, func(path string) string {
		if real, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(path) {
			return real
		}
		return path
	})
}

func accountBy(environ []string, of func(path string) string) string {
	getenv := lookup(environ)
	sum := sha256.New()
	for _, name := range accountVariables {
		sum.Write([]byte(name + "=" + of(getenv(name)) + "\x00"))
	}
	for _, name := range furtherAccountVariables { // a variable that is not set leaves digests as they were without it
		if v := getenv(name); v != "" {
			sum.Write([]byte(name + "=" + of(v) + "\x00"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// isAccount tells whether a generation was begun in the account context of an environment. Journals of before paths were
// resolved have them as they were given.
func isAccount(digest string, environ []string) bool {
	return digest == "" || digest == account(environ) || digest == accountBy(environ, func(path string) string { return path })
}

// accountEnv is an environment with what a session has of its own of what decides the account, in place of the caller's.
func accountEnv(environ []string, s sessions.Settings) []string {
	var out []string
	for _, name := range slices.Concat(accountVariables, furtherAccountVariables) {
		if value, own := s.Env[name]; own {
			out = append(out, name+"="+value)
		}
	}
	if out == nil && len(s.EnvUnset) == 0 {
		return environ
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if _, own := s.Env[name]; !own && !slices.Contains(s.EnvUnset, name) {
			out = append(out, e)
		}
	}
	return out
}

// sameAccount gives the session, and refuses a caller that would take it up in another account context than it was begun
// in.
func (h *Host) sameAccount(ctx context.Context, who sessions.Caller, session string, now sessions.Settings) (s journal.Session, err error) {
	return s, h.look(ctx, func(tx *journal.Tx) error {
		g, _, err := tx.LastGeneration(session)
		if err == nil && !isAccount(g.AccountDigest, accountEnv(who.Env, now)) {
			return otherAccount(session)
		}
		if err == nil {
			s, err = tx.GetSession(who.Principal, session)
		}
		return err
	})
}

func otherAccount(session string) error {
	return sessions.Errorf(sessions.CodeInvalidParams, "session %s was made with another HOME, CODEX_HOME or account context than this caller has", session).
		Do("use an environment with the same %s", strings.Join(slices.Concat(accountVariables, furtherAccountVariables), ", "))
}

func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}
