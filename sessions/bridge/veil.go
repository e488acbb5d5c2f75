package bridge

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/batonmcp/baton/internal/redact"
	"github.com/batonmcp/baton/sessions"
)

// veil takes secrets out of what leaves the bridge: before an event is numbered, and before a line is logged. What goes to
// the agent passes beside it.
//
// A text that streams is looked at as one, whatever pieces it comes in: what may still become a secret is held back until
// more of it comes or it ends.
type veil struct {
	set atomic.Pointer[redact.Set] // what is looked for now
	key []byte                     // of names, this bridge's own

	named atomic.Pointer[named] // the last one

	mu      sync.Mutex // held while an event is passed on, so that events keep their order
	values  []string
	deltas  bool // what a running tool says comes in pieces, not whole each time
	streams map[streamKey]*stream
	pieces  map[pieceKey]*redact.Stream
	asked   map[string][]string // secret questions by the handle of their open request
}

type streamKey struct{ kind, command, turn, item, agent string }

type stream struct {
	*redact.Stream
	last sessions.Event // without its text, for what comes of it later
}

// Bounds of the texts under way. An agent that begins more has ended none of them: what is known of those that do not stand
// in the middle of what may be a secret is forgotten, and what is known of all only where they are very many.
const (
	maxStreams  = 256
	mostStreams = 2048
)

func newVeil() *veil {
	v := &veil{key: make([]byte, 16), streams: map[streamKey]*stream{}, pieces: map[pieceKey]*redact.Stream{}, asked: map[string][]string{}}
	rand.Read(v.key) // it never fails
	v.set.Store(redact.New(nil))
	return v
}

// learn takes the secrets of a launch: the values of variables that are named like credentials or that the session brought
// itself, passwords in addresses, and what its MCP servers get.
func (v *veil) learn(s Spec) {
	var values []string
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		if credential(name) || slices.Contains(s.Secret, name) {
			values = append(values, secretsIn(value)...)
		} else {
			values = append(values, password(value)...)
		}
	}
	for _, m := range s.Open.MCPServers {
		for _, vars := range []map[string]string{m.Env, m.Headers} {
			for _, value := range vars {
				values = append(values, secretsIn(value)...)
			}
		}
		values = append(values, password(m.URL)...)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deltas = s.Protocol == "app-server"
	v.addLocked(values)
}

func (v *veil) addLocked(values []string) {
	before := len(v.values)
	for _, x := range values {
		if redact.Usable(x) && !slices.Contains(v.values, x) {
			v.values = append(v.values, x)
		}
	}
	if len(v.values) > before {
		v.set.Store(redact.New(v.values))
	}
}

// credentialWords are what names of variables that hold credentials are made of.
var credentialWords = []string{"KEY", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
	"AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "PAT", "PRIVATE"}

func credential(name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' }),
		func(word string) bool {
			return slices.Contains(credentialWords, word) || strings.HasSuffix(word, "PASSWORD") || strings.HasSuffix(word, "TOKEN") || strings.HasSuffix(word, "SECRET")
		})
}

// secretsIn are the secrets in a value: the value, and what stands behind the name of its scheme. A path is none, but what
// a program finds there is.
func secretsIn(value string) []string {
	if filepath.IsAbs(value) {
		return nil
	}
	out := append([]string{value}, password(value)...)
	if scheme, rest, ok := strings.Cut(value, " "); ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(scheme)) {
		out = append(out, strings.TrimSpace(rest))
	}
	return out
}

// password is that of an address, as it stands there and as it is meant.
func password(value string) []string {
	if !strings.Contains(value, "://") || !strings.Contains(value, "@") {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return nil
	}
	p, ok := u.User.Password()
	if !ok {
		return nil
	}
	_, raw, _ := strings.Cut(u.User.String(), ":")
	return []string{p, raw}
}

// redact takes the secrets out of a text that is to be cut; before stands before it and is not given.
func (v *veil) redact(before, text string) string { return v.set.Load().After(before, text) }

// name is what an agent names one of its things with, without the secrets in it. It is compared and goes nowhere; what tells
// it from others is keyed, since it is made of a secret.
func (v *veil) name(id string) string {
	if id == "" {
		return id
	}
	set := v.set.Load()
	if last := v.named.Load(); last != nil && last.set == set && last.id == id { // a text has many pieces
		return last.told
	}
	told, some := set.Redact(id)
	if some {
		sum := hmac.New(sha256.New, v.key)
		sum.Write([]byte(id))
		told += "-" + hex.EncodeToString(sum.Sum(nil)[:6])
	}
	v.named.Store(&named{set, id, told})
	return told
}

// named is a name as it was told.
type named struct {
	set      *redact.Set
	id, told string
}

// event passes an event on, and before it what it ends.
func (v *veil) event(e sessions.Event, out func(sessions.Event)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.noteLocked(e)
	key, text := v.streamed(&e)
	if text == nil {
		v.endLocked(e, out)
		out(v.unfinishedLocked(v.piecesLocked(e)))
		return
	}
	s := v.streamLocked(key, e.Follows, out)
	s.Use(v.set.Load())
	settled := s.Write(nil, *text)
	s.last = withText(e, "")
	if len(settled) > 0 || *text == "" || e.Tool != nil && (len(e.Tool.Detail) > 0 || len(e.Tool.Paths) > 0) {
		e = withText(e, string(settled))
		e.Redacted = bytes.Contains(settled, []byte(redact.Mask))
		out(v.piecesLocked(e))
	}
}

// streamLocked is the stream of a text: its own, that of the item which it follows, or a new one.
func (v *veil) streamLocked(key streamKey, follows string, out func(sessions.Event)) *stream {
	s := v.streams[key]
	if s != nil {
		return s
	}
	before := key
	before.item = follows
	if s = v.streams[before]; s != nil {
		s.breakOff(out)
		delete(v.streams, before)
		v.streams[key] = s
		return s
	}
	if len(v.streams) >= maxStreams { // those that hold nothing lose nothing
		maps.DeleteFunc(v.streams, func(_ streamKey, s *stream) bool { return s.Idle() })
	}
	if len(v.streams) >= mostStreams {
		for _, s := range v.streams {
			s.breakOff(out)
		}
		clear(v.streams)
	}
	s = &stream{Stream: v.set.Load().Stream()}
	v.streams[key] = s
	return s
}

// breakOff gives out what is held of a text that goes on elsewhere, if at all.
func (s *stream) breakOff(out func(sessions.Event)) { s.give(s.Break(nil), out) }

func (s *stream) give(text []byte, out func(sessions.Event)) {
	if len(text) == 0 {
		return
	}
	e := withText(s.last, string(text))
	e.Redacted = bytes.Contains(text, []byte(redact.Mask))
	if e.Tool != nil {
		e.Tool.Detail, e.Tool.Paths = nil, nil
	}
	out(e)
}

// unfinishedLocked is an event without what may be the first part of a secret, where an agent tells something that it has
// not come to the end of, and tells it again: a tool that runs, a list of plans, a text that something else cuts.
func (v *veil) unfinishedLocked(e sessions.Event) sessions.Event {
	set := v.set.Load()
	hide := func(s *string) {
		var some bool
		*s, some = set.Unfinished(*s)
		e.Redacted = e.Redacted || some
	}
	hideLines := func(s *string) { // which are several texts, one below the other
		hide(s) // a secret may have lines of its own
		lines := strings.Split(*s, "\n")
		for i := range lines {
			hide(&lines[i])
		}
		*s = strings.Join(lines, "\n")
	}
	switch {
	case e.Kind == sessions.EventText && e.Cut:
		hide(&e.Text)
	case v.deltas: // it tells pieces, and each whole thing once
	case e.Kind == sessions.EventPlan:
		hideLines(&e.Text)
		if raw, err := json.Marshal(e.Data); err == nil && e.Data != nil {
			if raw, some := set.Strings(raw, false, func(_, text string) (string, bool) { return set.Unfinished(text) }); some {
				e.Data, e.Redacted = nil, true
				_ = json.Unmarshal(raw, &e.Data) // it was made of one
			}
		}
	case e.Tool != nil && (e.Tool.Status == "" || e.Tool.Status == "in_progress") && (e.Kind == sessions.EventToolStarted || e.Kind == sessions.EventToolUpdated):
		t := *e.Tool
		e.Tool = &t
		hide(&t.Title)
		hideLines(&t.Output)
		t.Paths = slices.Clone(t.Paths)
		for i := range t.Paths {
			hide(&t.Paths[i])
		}
	}
	return e
}

// pieceKey is a string in what goes along with the events of a tool.
type pieceKey struct{ command, item, agent, path string }

// piecesLocked is an event of a tool without secrets in the agent's own message beside it, where each string may be a piece
// of a text that other messages go on with, also after the tool has ended: codex-acp 2.6.0 tells the output of a command so.
func (v *veil) piecesLocked(e sessions.Event) sessions.Event {
	last := e.Kind == sessions.EventToolCompleted
	if e.Tool == nil || !last && e.Kind != sessions.EventToolStarted && e.Kind != sessions.EventToolUpdated {
		return e
	}
	set, t := v.set.Load(), *e.Tool
	e.Tool = &t
	hide := func(path, text string) (string, bool) {
		key := pieceKey{e.Command, e.Item, e.Agent, path}
		s := v.pieces[key]
		said := text
		if s == nil { // the first piece may be lost: Codex has lost some of the output of commands
			if said, _ = set.Beheaded(text); said == text && set.Clean(text) {
				return text, false
			}
			s = set.Stream()
		}
		s.Use(set)
		delete(v.pieces, key)
		if last {
			out := string(s.Close(s.Write(nil, said)))
			return out, out != text
		}
		out := string(s.Break(s.Write(nil, said)))
		if !s.Idle() {
			v.keepLocked(key, s)
		}
		return out, out != text
	}
	if t.Output != "" && !v.deltas { // else it was looked at as a whole
		told, some := hide("output", t.Output)
		t.Output, e.Redacted = told, e.Redacted || some
	}
	for name, raw := range map[string]*json.RawMessage{"detail": &t.Detail, "raw": &e.Raw} {
		if told, some := set.Strings(*raw, v.openLocked(e) || set.Beheads(*raw), func(path, text string) (string, bool) { return hide(name+path, text) }); some {
			*raw, e.Redacted = told, true
		}
	}
	return e
}

// openLocked tells whether a string beside an earlier event of the same tool ended in the middle of what may be a secret.
func (v *veil) openLocked(e sessions.Event) bool {
	for key := range v.pieces {
		if key.command == e.Command && key.item == e.Item && key.agent == e.Agent {
			return true
		}
	}
	return false
}

// maxPieces bounds what is known of strings that ended in the middle of what may be a secret.
const maxPieces = 1024

func (v *veil) keepLocked(key pieceKey, s *redact.Stream) {
	if len(v.pieces) >= maxPieces {
		for some := range v.pieces {
			delete(v.pieces, some)
			break
		}
	}
	v.pieces[key] = s
}

// streamed returns the text of an event that is a piece of one, nil when it is none.
func (v *veil) streamed(e *sessions.Event) (streamKey, *string) {
	key := streamKey{string(e.Kind), e.Command, e.Turn, e.Item, e.Agent}
	switch {
	case joinable(*e):
		return key, &e.Text
	case e.Kind == sessions.EventToolUpdated && v.deltas && e.Tool != nil && e.Tool.Output != "":
		return key, &e.Tool.Output
	}
	return key, nil
}

func withText(e sessions.Event, text string) sessions.Event {
	if e.Kind != sessions.EventToolUpdated {
		e.Text = text
		return e
	}
	t := *e.Tool
	t.Output = text
	e.Tool = &t
	return e
}

// endLocked gives out what was held of the texts that an event ends: its item's, or its turn's. A text that is only cut
// goes on in another item.
func (v *veil) endLocked(e sessions.Event, out func(sessions.Event)) {
	command := e.Command
	if e.Settled != nil && e.Settled.Command != "" {
		command = e.Settled.Command
	}
	switch e.Kind {
	case sessions.EventText, sessions.EventReasoning, sessions.EventPlan:
		key := streamKey{string(e.Kind), e.Command, e.Turn, e.Item, e.Agent}
		if s := v.streams[key]; s != nil && (e.Cut || !e.Final && !e.Abandoned) {
			if s.breakOff(out); s.Idle() {
				delete(v.streams, key)
			}
			return
		}
	}
	v.flushLocked(func(k streamKey, _ *stream) bool {
		switch e.Kind {
		case sessions.EventCommandSettled:
			return k.command == command
		case sessions.EventTurnCompleted:
			return k.turn == e.Turn && k.agent == e.Agent
		case sessions.EventText, sessions.EventReasoning, sessions.EventPlan:
			return k.item == e.Item && k.kind == string(e.Kind)
		case sessions.EventToolCompleted:
			return k.item == e.Item && k.kind == string(sessions.EventToolUpdated)
		}
		return false
	}, out)
}

func (v *veil) flushLocked(which func(streamKey, *stream) bool, out func(sessions.Event)) {
	for _, key := range slices.SortedFunc(maps.Keys(v.streams), func(a, b streamKey) int {
		return strings.Compare(a.command+a.turn+a.item+a.kind+a.agent, b.command+b.turn+b.item+b.kind+b.agent)
	}) {
		if s := v.streams[key]; which(key, s) {
			delete(v.streams, key)
			s.give(s.Close(nil), out)
		}
	}
}

// close gives out what is held.
func (v *veil) close(out func(sessions.Event)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.flushLocked(func(streamKey, *stream) bool { return true }, out)
}

// events passes some on that are all there are.
func (v *veil) events(all []sessions.Event) []sessions.Event {
	told := make([]sessions.Event, 0, len(all))
	out := func(e sessions.Event) { told = append(told, e) }
	for _, e := range all {
		v.event(e, out)
	}
	v.close(out)
	return told
}

// noteLocked keeps which questions are secret.
func (v *veil) noteLocked(e sessions.Event) {
	if e.Request == nil {
		return
	}
	switch e.Kind {
	case sessions.EventQuestionRequested:
		for _, q := range e.Request.Questions {
			if q.Secret {
				v.asked[e.Request.Handle] = append(v.asked[e.Request.Handle], q.ID)
			}
		}
	case sessions.EventRequestResolved:
		delete(v.asked, e.Request.Handle)
	}
}

// answered takes what is answered to a secret question as a secret from now on.
func (v *veil) answered(a sessions.Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range v.asked[a.Handle] {
		v.addLocked(a.Answers[id])
	}
	delete(v.asked, a.Handle)
}

// structural are the members of frames that name things to programs. A secret that happens to equal one of them must not
// break what it is used for.
var structural = map[string]bool{
	"kind": true, "command": true, "turn": true, "item": true, "agent": true, "code": true, "at": true,
	"request.handle": true, "request.kind": true, "request.command": true, "request.options.*.option_id": true, "request.options.*.kind": true,
	"request.questions.*.id": true, "request.questions.*.options.*.id": true,
	"settled.command": true, "settled.state": true, "settled.outcome": true, "selection.asked": true, "selection.evidence.files": true,
	"native_id": true, "conversations.*.native_id": true, "conversations.*.runner": true, "conversations.*.files": true, "events.*.kind": true, "events.*.item": true, "evidence.files": true, "settled.*.command": true, "settled.*.state": true,
	"ref": true, "state": true, "error.code": true, "running": true, "signal": true, "models.*.id": true, "modes": true, "login": true,
}

// frame redacts the body of one line of the protocol.
func (v *veil) frame(line []byte, kind Kind) []byte {
	at := bytes.Index(line, []byte(`,"b":`))
	if at < 0 {
		return line
	}
	at += len(`,"b":`)
	body, some := v.set.Load().JSON(line[at:len(line)-2], structural)
	if !some && !bytes.Contains(body, []byte(redact.Mask)) { // what was cut was redacted before
		return line
	}
	out := bytes.NewBuffer(make([]byte, 0, len(line)))
	out.Write(line[:at])
	if kind == OutEvent && !bytes.Contains(body, []byte(`"redacted":true`)) && json.Valid(body) {
		out.WriteString(`{"redacted":true,`)
		body = body[1:]
	}
	out.Write(body)
	out.WriteString("}\n")
	return out.Bytes()
}

// log redacts what is written to a log, line by line.
func (v *veil) log(w io.Writer) io.Writer { return logVeil{v, w} }

type logVeil struct {
	v *veil
	w io.Writer
}

func (l logVeil) Write(line []byte) (int, error) {
	text, some := l.v.set.Load().Redact(string(line))
	if !some {
		return l.w.Write(line)
	}
	if _, err := io.WriteString(l.w, text); err != nil {
		return 0, err
	}
	return len(line), nil
}
