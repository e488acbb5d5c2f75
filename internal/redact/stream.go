package redact

import "slices"

// Stream redacts one text that comes in pieces.
type Stream struct {
	set   *Set
	state int32
	held  []byte // not given out yet: it may be part of a secret
	mark  []bool // of each held byte: it is part of one
	runs  []run
	last  byte   // the last byte given out of held
	begun bool   // there is one
	gone  []byte // the end of what a break gave out, as far as state is about it

	masking  bool // what was given out last was a mask
	redacted bool
}

// run is the beginning of what may be a credential by a rule.
type run struct {
	rule  int32
	start int // in held; negative once its beginning was given out
	count int // bytes of its class so far
}

// Stream begins a text.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Redacted tells whether anything was.
func (t *Stream) Redacted() bool { return t.redacted }

// Write appends to dst what of the text is settled after a further piece of it.
func (t *Stream) Write(dst []byte, piece string) []byte {
	for len(piece) > 0 {
		if len(t.runs) == 0 && !slices.Contains(t.mark, true) {
			if dst, piece = t.pass(dst, piece); len(piece) == 0 {
				return dst
			}
		}
		t.take(piece[0])
		piece = piece[1:]
		if len(t.runs) == 0 || len(t.held) > 1024 {
			dst = t.emit(dst, t.settled())
		}
	}
	return t.emit(dst, t.settled())
}

// pass takes the piece up to where something ends that is looked for, and returns the rest of it. No run may be under way,
// and nothing held be part of a secret.
func (t *Stream) pass(dst []byte, piece string) ([]byte, string) {
	state, next, width, class, hit, end := int(t.state), t.set.next, t.set.width, &t.set.class, t.set.hit, 0
	for ; end < len(piece); end++ {
		to := int(next[state*width+int(class[piece[end]])])
		if hit[to] {
			break
		}
		state = to
	}
	t.state = int32(state)
	n := len(t.held) + end - int(t.set.nodes[state].depth) // settled
	if n > 0 {
		old := min(n, len(t.held))
		dst = append(append(dst, t.held[:old]...), piece[:n-old]...)
		t.last, t.begun, t.masking = dst[len(dst)-1], true, false
		t.held = append(append(t.held[:0], t.held[old:]...), piece[n-old:end]...)
	} else {
		t.held = append(t.held, piece[:end]...)
	}
	t.mark = append(t.mark[:0], make([]bool, len(t.held))...)
	return dst, piece[end:]
}

func (t *Stream) take(b byte) {
	t.state = t.set.step(t.state, b)
	t.held, t.mark = append(t.held, b), append(t.mark, false)
	end := len(t.held)
	kept := t.runs[:0]
	for _, r := range t.runs { // those that go on
		if rule := &rules[r.rule]; rule.class[b] {
			switch r.count++; {
			case r.count == rule.least:
				t.marked(r.start, end) // nothing of it was given out yet
			case r.count > rule.least:
				t.marked(end-1, end)
			}
			kept = append(kept, r)
		}
	}
	t.runs = kept
	n := &t.set.nodes[t.state]
	if n.out > 0 {
		t.marked(end-int(n.out), end)
	}
	if n.rule == 0 && n.link == 0 {
		return
	}
	for at := t.state; at != 0; at = t.set.nodes[at].link {
		r := t.set.nodes[at].rule
		if r == 0 {
			continue
		}
		start := end - len(rules[r-1].prefix)
		before, first := t.last, !t.begun
		if start > 0 {
			before, first = t.held[start-1], false
		}
		// What stands before a prefix that a break divided is not known any more.
		if (start < 0 || begins(before, first)) && !t.covered(rules[r-1].class) {
			t.runs = append(t.runs, run{rule: r - 1, start: start})
		}
	}
}

// covered tells whether a credential of the same characters is under way, which goes as far as another one would.
func (t *Stream) covered(c *[256]bool) bool {
	return slices.ContainsFunc(t.runs, func(r run) bool { return rules[r.rule].class == c && r.count >= rules[r.rule].least })
}

func (t *Stream) marked(from, to int) {
	for i := max(from, 0); i < to; i++ { // what a break gave out is gone
		t.mark[i] = true
	}
}

// settled is how much of what is held can be part of nothing more.
func (t *Stream) settled() int {
	n := len(t.held) - int(t.set.nodes[t.state].depth)
	for _, r := range t.runs {
		if r.count < rules[r.rule].least {
			n = min(n, r.start)
		}
	}
	return n
}

func (t *Stream) emit(dst []byte, n int) []byte {
	if n <= 0 {
		return dst
	}
	for i := range n {
		switch {
		case !t.mark[i]:
			dst = append(dst, t.held[i])
			t.masking = false
		case !t.masking:
			dst = append(dst, Mask...)
			t.masking, t.redacted = true, true
		}
	}
	t.last, t.begun = t.held[n-1], true
	t.held = append(t.held[:0], t.held[n:]...)
	t.mark = append(t.mark[:0], t.mark[n:]...)
	for i := range t.runs {
		t.runs[i].start -= n
	}
	return dst
}

// Close appends the rest of the text. The stream is then at the beginning of another one.
func (t *Stream) Close(dst []byte) []byte {
	dst = t.emit(dst, len(t.held))
	t.state, t.runs, t.begun, t.masking, t.gone = 0, t.runs[:0], false, false, nil
	return dst
}

// Break appends what is held, since something else comes in between, and the text may go on after that. What may be the
// first part of a secret is redacted where it is long enough to be worth it, and what turns out to be its rest is, too.
func (t *Stream) Break(dst []byte) []byte {
	end, n := len(t.held), int(t.set.nodes[t.state].depth)
	if n >= shortest {
		t.marked(end-n, end)
	}
	t.gone = append(t.gone, t.held...)
	t.gone = t.gone[len(t.gone)-min(n, len(t.gone)):]
	for _, r := range t.runs {
		if 2*r.count >= rules[r.rule].least {
			t.marked(r.start, end)
		}
	}
	dst = t.emit(dst, end)
	t.masking = false // what comes next stands elsewhere
	return dst
}

// Idle tells whether what comes next can be looked at without what came before.
func (t *Stream) Idle() bool { return len(t.held) == 0 && t.state == 0 && len(t.runs) == 0 }

// Rest is what Break would append now. The text goes on.
func (t *Stream) Rest() string {
	end := *t
	end.held, end.mark, end.runs, end.gone = slices.Clone(t.held), slices.Clone(t.mark), slices.Clone(t.runs), nil
	return string(end.Break(nil))
}

// Use goes on with another set. What is held is looked at again by it.
func (t *Stream) Use(s *Set) {
	if t.set == s {
		return
	}
	held, mark := t.held, t.mark
	before := t.gone[len(t.gone)-max(0, min(int(t.set.nodes[t.state].depth)-len(held), len(t.gone))):]
	t.set, t.state, t.runs, t.held, t.mark = s, 0, nil, nil, nil
	for _, b := range before {
		t.state = s.step(t.state, b)
	}
	for i, b := range held {
		t.take(b)
		t.mark[i] = t.mark[i] || mark[i]
	}
	for i := range mark { // marks of before stay
		t.mark[i] = t.mark[i] || mark[i]
	}
}
