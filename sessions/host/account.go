package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// accountVariables decide which account and which history an agent uses.
var accountVariables = []string{"HOME", "CODEX_HOME", "CODEX_SQLITE_HOME", "CURSOR_CONFIG_DIR", "CURSOR_DATA_DIR"}

// furtherAccountVariables do so for single agents.
var furtherAccountVariables = []string{"CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR"}

// account is the digest of the account context of an environment. It holds paths, no secrets.
func account(environ []string) string {
	getenv := lookup(environ)
	sum := sha256.New()
	for _, name := range accountVariables {
		sum.Write([]byte(name + "=" + getenv(name) + "\x00"))
	}
	for _, name := range furtherAccountVariables { // a variable that is not set leaves digests as they were without it
		if v := getenv(name); v != "" {
			sum.Write([]byte(name + "=" + v + "\x00"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// sameAccount gives the session, and refuses a caller that would take it up in another account context than it was begun
// in.
func (h *Host) sameAccount(ctx context.Context, who sessions.Caller, session string) (s journal.Session, err error) {
	return s, h.look(ctx, func(tx *journal.Tx) error {
		g, _, err := tx.LastGeneration(session)
		if err == nil && g.AccountDigest != "" && g.AccountDigest != account(who.Env) {
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
