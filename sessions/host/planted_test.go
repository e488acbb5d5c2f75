package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// A bridge that was killed leaves what its agent planted; the host of that moment, whichever it is, removes it, where it
// was and nowhere else.
func TestWhatWasPlantedGoesWithItsSession(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	base := folder(t)
	git, elsewhere, gone := filepath.Join(base, "git"), filepath.Join(base, "elsewhere"), filepath.Join(base, "gone")
	for _, d := range []string{git, elsewhere} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "commondir"), []byte("../evil"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link(t, elsewhere, gone)
	r.tx(func(tx *journal.Tx) error {
		_, err := tx.UpdateSession(s.id, func(k *journal.Session) {
			k.Evidence.Files = &sessions.FilePolicy{Watched: []string{git, gone}}
		})
		return err
	})
	ten := r.tenderOf(s.id, s.generation, journal.Generation{})
	ten.over(sandbox.Verdict{State: sandbox.Confirmed, Proof: sandbox.ProofPIDNamespace})
	if _, err := os.Lstat(filepath.Join(git, "commondir")); err == nil {
		t.Error("it is still there")
	}
	if _, err := os.Lstat(filepath.Join(elsewhere, "commondir")); err != nil {
		t.Error("a link was followed")
	}
	if v := s.view(); v.State != sessions.SessionFailed || v.Error == nil || v.Error.Code != sessions.CodeSandboxUnavailable {
		t.Errorf("%s: %v", v.State, v.Error)
	}
}
