package host

import (
	"slices"
	"testing"

	"github.com/batonmcp/baton/sessions/journal"
)

// TestLiveLeavesOutWhatIsProvenGone: a close is answered once the end is proven and durable, which is before the tender
// has tidied up; a stop of the host must not name that session as one that goes on.
func TestLiveLeavesOutWhatIsProvenGone(t *testing.T) {
	h := &Host{tenders: map[string]*tender{}}
	for _, id := range []string{"b", "gone", "a"} {
		h.tenders[id] = h.tenderOf(id, "generation of "+id, journal.Generation{})
	}
	close(h.tenders["gone"].proven)
	if ids := h.liveIDs(); !slices.Equal(ids, []string{"a", "b"}) || h.Live() != 2 {
		t.Errorf("live: %v, %d of them", ids, h.Live())
	}
}
