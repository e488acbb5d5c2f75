package bridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// planted is the file that nobody but an attacker makes in a folder of git's. See sessions.FilePolicy.Watched.
const planted = "commondir"

// watchPlanting looks from now on whether the agent plants a file that git would take programs from, and ends the session
// when it does. Where nothing can tell, the policy says so.
func (b *Bridge) watchPlanting(f *sessions.FilePolicy) {
	if f == nil || len(f.Watched) == 0 {
		return
	}
	stop, err := watchFor(planted, f.Watched, b.unplant)
	if err != nil {
		b.mu.Lock()
		with := *f
		with.Holes = append(append([]string{}, f.Holes...), "that a file commondir is planted in a .git is seen only at the end of the session: "+err.Error())
		b.files = &with
		b.mu.Unlock()
		return
	}
	b.wg.Go(func() {
		<-b.ended
		stop()
	})
}

// unplant takes away what was planted. The first time it kills the agent with all that it started, and ends the session.
func (b *Bridge) unplant() {
	b.mu.Lock()
	f := b.files
	b.mu.Unlock()
	found := Unplant(f)
	if len(found) == 0 {
		return
	}
	b.planting.Do(func() {
		e := Planted(found)
		b.mu.Lock()
		b.violation = e
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		b.o.Reaper.KillAll(ctx)
		Unplant(f) // what came meanwhile
		b.wg.Go(func() { b.shutdown(e, false) })
	})
}

// tellViolation says, once the end of the session has begun, why it is a failed one. What the agent's own end is told of
// comes after it.
func (b *Bridge) tellViolation() {
	b.mu.Lock()
	e := b.violation
	b.violation = nil
	b.mu.Unlock()
	if e == nil {
		return
	}
	b.rec.Flush()
	b.event(sessions.Event{Kind: sessions.EventError, At: time.Now().UTC(), Code: e.Code, Text: e.Message})
	b.put(OutFailed, Failure{Error: e})
}

// Planted is what a caller is told of what was found.
func Planted(found []string) *sessions.Error {
	return sessions.Errorf(sessions.CodeSandboxUnavailable, "the agent planted %s, by which git would have run programs outside of the sandbox; it was removed, and the agent was stopped",
		strings.Join(found, ", ")).Do("look at what the agent did before you resume the session")
}

// Unplant removes what was planted under a policy, and returns what it was.
func Unplant(f *sessions.FilePolicy) (found []string) {
	if f == nil {
		return nil
	}
	for _, dir := range f.Watched {
		if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
			continue // it is not there any more
		}
		path := filepath.Join(dir, planted)
		err := os.Remove(path)
		if fi, statErr := os.Lstat(dir); errors.Is(err, os.ErrPermission) && statErr == nil { // it may have been made read-only
			if os.Chmod(dir, fi.Mode().Perm()|0o300) == nil {
				err = os.Remove(path)
			}
		}
		if err == nil {
			found = append(found, path)
		}
	}
	return found
}
