// Package redact takes secrets out of what an agent says, before anybody keeps it.
//
// Two kinds are found: exact values that were handed over, in the encodings that text goes through, and values that have
// the form of a well-known credential. What a Stream gives does not depend on how its input was cut into pieces: it holds
// back what may still become a secret, and no more.
//
// It is no boundary. A program that wants to tell a secret can turn it round, and nothing here will know it.
package redact

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mask is put in the place of each secret; neighbours share one.
const Mask = "[redacted]"

// Set is what to look for. It is not changed after New, and safe for concurrent use.
//
// It is an automaton over all needles at once (Aho and Corasick): one step a byte, whatever their number.
type Set struct {
	class [256]byte // of each byte; 0: in no needle
	width int
	next  []int32 // state*width+class
	nodes []node
	hit   []bool              // of each state: something ends there
	exact int                 // secrets that are looked for by value
	rests map[string][]string // what values end with, by how that begins
}

type node struct {
	depth int32 // bytes of the longest needle's beginning that ends here
	out   int32 // length of the longest value that ends here, 0 for none
	rule  int32 // 1 + the rule whose prefix ends here, 0 for none
	fail  int32
	link  int32 // the next shorter state with a rule
}

// New makes the set of some values, with the rules for well-known credentials. Values that are too short or too plain to
// be told from ordinary text are left out; Usable says which.
func New(values []string) *Set {
	var needles []string
	s := &Set{}
	for _, v := range values {
		if Usable(v) {
			s.exact++
			s.rest(v)
			needles = append(needles, variants(v)...)
		}
	}
	slices.Sort(needles)
	return s.build(slices.Compact(needles), rules)
}

// Exact is the number of values that are looked for.
func (s *Set) Exact() int { return s.exact }

func (s *Set) build(needles []string, rules []rule) *Set {
	words := slices.Clone(needles)
	for _, r := range rules {
		words = append(words, r.prefix)
	}
	s.width = 1
	for _, w := range words {
		for i := range len(w) {
			if s.class[w[i]] == 0 {
				s.class[w[i]] = byte(s.width)
				s.width++
			}
		}
	}
	s.add()
	for i, w := range words {
		at := int32(0)
		for j := range len(w) {
			slot := int(at)*s.width + int(s.class[w[j]])
			if s.next[slot] == 0 {
				to := s.add()
				s.next[slot] = to
				s.nodes[to].depth = s.nodes[at].depth + 1
			}
			at = s.next[slot]
		}
		if i < len(needles) {
			s.nodes[at].out = int32(len(w))
		} else {
			s.nodes[at].rule = int32(i - len(needles) + 1)
		}
	}
	s.connect()
	s.hit = make([]bool, len(s.nodes))
	for i, n := range s.nodes {
		s.hit[i] = n.out > 0 || n.rule != 0 || n.link != 0
	}
	return s
}

func (s *Set) add() int32 {
	s.nodes = append(s.nodes, node{})
	s.next = append(s.next, make([]int32, s.width)...)
	return int32(len(s.nodes) - 1)
}

// connect turns the tree into an automaton, level by level.
func (s *Set) connect() {
	var queue []int32
	for c := range s.width {
		if to := s.next[c]; to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &s.nodes[at]
		f := n.fail
		n.out = max(n.out, s.nodes[f].out)
		if n.link = f; s.nodes[f].rule == 0 {
			n.link = s.nodes[f].link
		}
		for c := range s.width {
			slot, short := int(at)*s.width+c, s.next[int(f)*s.width+c]
			if to := s.next[slot]; to != 0 {
				s.nodes[to].fail = short
				queue = append(queue, to)
			} else {
				s.next[slot] = short
			}
		}
	}
}

// step is the state after one more byte.
func (s *Set) step(state int32, b byte) int32 { return s.next[int(state)*s.width+int(s.class[b])] }

// may tells whether there can be anything to redact in a text, encoded as JSON or not. What stands before a credential is
// not looked at: in JSON it may be the letter of an escaped line break.
func (s *Set) may(text []byte) bool {
	state, next, width, class, hit := 0, s.next, s.width, &s.class, s.hit
	for i, b := range text {
		state = int(next[state*width+int(class[b])])
		if !hit[state] {
			continue
		}
		if s.nodes[state].out > 0 {
			return true
		}
		for at := int32(state); at != 0; at = s.nodes[at].link {
			if r := s.nodes[at].rule; r != 0 && rules[r-1].holds(text, i+1) {
				return true
			}
		}
	}
	return false
}

// rest takes down what a value ends with.
func (s *Set) rest(v string) {
	if len(v) > encoded {
		return
	}
	if s.rests == nil {
		s.rests = map[string][]string{}
	}
	for i := 1; i+shortest <= len(v); i++ {
		begin := v[i : i+shortest]
		s.rests[begin] = append(s.rests[begin], v[i:])
	}
}

// Beheaded redacts the rest of a secret that a text begins with, whose own beginning is not there and nowhere else. What may
// as well be words is left: the host of a secret address, or the end of a pass phrase.
func (s *Set) Beheaded(text string) (string, bool) {
	if len(text) < shortest {
		return text, false
	}
	n := 0
	for _, rest := range s.rests[text[:shortest]] {
		if strings.HasPrefix(text, rest) || strings.HasPrefix(rest, text) {
			n = max(n, min(len(rest), len(text)))
		}
	}
	if n == 0 || words(text[:n]) {
		return text, false
	}
	return Mask + text[n:], true
}

// Beheads tells whether a string in a JSON text may be one that Beheaded redacts.
func (s *Set) Beheads(text []byte) bool {
	if len(s.rests) == 0 {
		return false
	}
	for {
		i := bytes.IndexByte(text, '"')
		if i < 0 || len(text) <= i+shortest {
			return false
		}
		text = text[i+1:]
		if s.rests[string(text[:shortest])] != nil {
			return true
		}
	}
}

// words tells whether a part of a text is made of words and numbers, as names and addresses are: of letters alone, perhaps
// with a number of few digits behind them, or of few digits alone.
func words(part string) bool {
	const few = 5
	letters, digits := 0, 0
	for i := range len(part) {
		switch b := part[i]; {
		case b >= '0' && b <= '9':
			digits++
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z':
			upper := b <= 'Z'
			if digits > 0 || letters > 0 && upper && part[i-1] >= 'a' { // a letter behind a digit, or a capital within a word
				return false
			}
			letters++
		case b >= utf8.RuneSelf:
			letters++
		default:
			letters, digits = 0, 0
		}
		if digits > few || digits > 0 && letters == 1 {
			return false
		}
	}
	return true
}

// mayEnd tells whether there can be anything to redact in a text that may go on, or in the strings of one in JSON.
func (s *Set) mayEnd(text []byte) bool {
	state, next, width, class, hit := 0, s.next, s.width, &s.class, s.hit
	for _, b := range text {
		if b == '"' && s.nodes[state].depth >= shortest {
			return true
		}
		if state = int(next[state*width+int(class[b])]); hit[state] {
			return true
		}
	}
	return s.nodes[state].depth >= shortest
}

// Clean tells whether there is nothing to redact in a text, and nothing that a text behind it could make a secret of.
func (s *Set) Clean(text string) bool {
	state, next, width, class, hit := 0, s.next, s.width, &s.class, s.hit
	for i := range len(text) {
		if state = int(next[state*width+int(class[text[i]])]); hit[state] {
			return false
		}
	}
	return state == 0
}

// Redact takes what is to be redacted out of a whole text, and tells whether there was anything.
func (s *Set) Redact(text string) (string, bool) {
	if !s.may([]byte(text)) {
		return text, false
	}
	st := s.Stream()
	out := st.Write(nil, text)
	return string(st.Close(out)), st.redacted
}

// Unfinished redacts a text that its writer may not have come to the end of: what may be the first part of a secret there
// is redacted, too, where it is long enough to be worth it.
func (s *Set) Unfinished(text string) (string, bool) {
	if !s.mayEnd([]byte(text)) {
		return text, false
	}
	st := s.Stream()
	out := st.Break(st.Write(nil, text))
	if !st.redacted {
		return text, false
	}
	return string(out), true
}

// After redacts the end of a text, whose beginning is before and is not given: of a secret that begins there, no part is.
func (s *Set) After(before, text string) string {
	if before == "" {
		text, _ = s.Redact(text)
		return text
	}
	st := s.Stream()
	st.Write(nil, before)
	held := string(st.held)
	out := string(st.Close(st.Write(nil, text)))
	for held != "" && out != "" && held[0] == out[0] { // it was no secret, or not yet
		held, out = held[1:], out[1:]
	}
	return out
}
