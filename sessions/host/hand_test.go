package host

import (
	"slices"
	"testing"
)

// I02: a prompt that its commit hands over is given without a look at the journal only when it is the very next input and
// nothing else is known to be there.
func TestI02_HandedIsTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		sent  uint64
		hand  []uint64
		other string // generation of what is handed, where it is not the tender's
		kick  bool
		want  []uint64
	}{
		"nothing":                        {sent: 1},
		"the next":                       {sent: 1, hand: []uint64{2}, want: []uint64{2}},
		"two":                            {sent: 1, hand: []uint64{2, 3}, want: []uint64{2, 3}},
		"out of order":                   {sent: 1, hand: []uint64{3, 2}},
		"one before it":                  {sent: 1, hand: []uint64{3}},
		"given already":                  {sent: 2, hand: []uint64{2}},
		"beside one in the journal":      {sent: 1, hand: []uint64{2}, kick: true},
		"of another life of the agent's": {sent: 1, hand: []uint64{2}, other: "older"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{tenders: map[string]*tender{}}
			tr := &tender{h: h, session: "s", generation: "g", sentIn: c.sent, kicked: make(chan struct{}, 1)}
			h.tenders["s"] = tr
			for _, n := range c.hand {
				in := handed{session: "s", generation: "g", n: n}
				if c.other != "" {
					in.generation = c.other
				}
				h.hand(in)
			}
			if c.kick {
				h.kick("s")
			}
			if woken := len(tr.kicked) > 0; woken != (len(c.hand) > 0 || c.kick) {
				t.Errorf("the tender is woken: %v", woken)
			}
			var got []uint64
			for _, in := range tr.takeHanded() {
				got = append(got, in.n)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("given at once are %v, want %v", got, c.want)
			}
			if again := tr.takeHanded(); len(again) > 0 {
				t.Errorf("and once more %v", again)
			}
		})
	}
	(&Host{tenders: map[string]*tender{}}).hand(handed{session: "nobody's"})
}
