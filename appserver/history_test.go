package appserver

import (
	"strconv"
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	var h history
	for i := range 3 * historySize {
		h.add(strconv.Itoa(i), pastTurn{command: "c" + strconv.Itoa(i)})
		h.add(strconv.Itoa(i), pastTurn{command: "c" + strconv.Itoa(i), cancelled: true})
	}
	h.add("", pastTurn{})
	if len(h.turns) != historySize || len(h.order) != historySize {
		t.Errorf("%d turns are kept, in an order of %d", len(h.turns), len(h.order))
	}
	last := strconv.Itoa(3*historySize - 1)
	if h.has("0") || !h.has(last) || !h.turns[last].cancelled {
		t.Error("the last turns are not the ones that are kept")
	}
}

// TestAlarms: they go off in order of time, a called-off one does not, and one may set another.
func TestAlarms(t *testing.T) {
	var as alarms
	defer as.stop()
	if as.next() != nil {
		t.Error("without an alarm there is a channel")
	}
	var order []string
	ring := func(name string) func() { return func() { order = append(order, name) } }
	as.after(3*time.Hour, ring("last"))
	off := as.after(time.Hour, ring("off"))
	as.after(2*time.Hour, func() {
		ring("first")()
		as.after(-time.Hour, ring("from first"))
	})
	as.after(3*time.Hour, ring("very last"))
	off.off()
	(*alarm)(nil).off()
	if as.next() == nil {
		t.Error("with alarms there is no channel")
	}
	as.fire(time.Now().Add(2*time.Hour + time.Minute))
	as.fire(time.Now().Add(4 * time.Hour))
	if got, want := order, []string{"first", "from first", "last", "very last"}; len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("rung in the order %q, want %q", got, want)
	}
	if as.next() != nil || len(as.pending) > 0 {
		t.Error("alarms are left")
	}
}
