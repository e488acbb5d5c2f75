package host

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// I04: a send means what it would as any other call: every member of it, whatever is in it.
func TestI04_MeaningOfASend(t *testing.T) {
	same := func(a sessions.SendArgs) {
		t.Helper()
		if got, want := meantBySend(a), meant("send", a); got != nil && string(got) != string(want) {
			t.Errorf("%+v means\n%s\nand was to mean\n%s", a, got, want)
		}
	}
	for i := range reflect.TypeFor[sessions.SendArgs]().NumField() {
		a := sessions.SendArgs{SessionID: "s", Text: "t"}
		switch f := reflect.ValueOf(&a).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*f = "<é>\u2028\"\\"
		case *int:
			*f = 1 << 40
		case **int:
			*f = ptr(3)
		case *[]string:
			*f = []string{"b", "a"}
		case *sessions.Guard:
			*f = sessions.Guard{LeaseID: "l", Generation: "g"}
		default:
			t.Fatalf("no value for member %d, a %T", i, f)
		}
		if meantBySend(a) == nil {
			t.Errorf("%+v is not written by itself", a)
		}
		same(a)
	}
	for _, text := range []string{"", "\xff", "\ufffd", `\ufffd`, "a\x00\x7f", "\xed\xa0\x80"} {
		same(sessions.SendArgs{SessionID: text, Text: text, Images: []string{text}, Model: text})
	}
}

// I04: what is and what is not part of a call's meaning.
func TestI04_Meaning(t *testing.T) {
	create := sessions.CreateArgs{Runner: "r", Cwd: "/w", Settings: sessions.Settings{Model: "m", Env: map[string]string{"A": "1"},
		MCPServers:    []sessions.MCPServer{{Name: "s", Command: "c", Args: []string{"x"}, Env: map[string]string{"T": "1"}, Headers: map[string]string{"H": "1"}}},
		RunnerOptions: map[string]any{"a": 1.0, "b": map[string]any{"c": 2.0, "d": 3.0}}}, Key: "k"}
	send := sessions.SendArgs{SessionID: "s", Text: "t", CommandID: "c"}
	with := func(change func(c *sessions.CreateArgs)) sessions.CreateArgs { c := create; change(&c); return c }
	sending := func(change func(c *sessions.SendArgs)) sessions.SendArgs { c := send; change(&c); return c }
	same := map[string][2]any{
		"patience":      {create, with(func(c *sessions.CreateArgs) { c.WaitSeconds = ptr(9) })},
		"the key":       {create, with(func(c *sessions.CreateArgs) { c.Key = "other" })},
		"values of env": {create, with(func(c *sessions.CreateArgs) { c.Env = map[string]string{"A": "2"} })},
		"order of options": {create, with(func(c *sessions.CreateArgs) {
			c.RunnerOptions = map[string]any{"b": map[string]any{"d": 3.0, "c": 2.0}, "a": 1.0}
		})},
		"values of a server": {create, with(func(c *sessions.CreateArgs) {
			c.MCPServers = []sessions.MCPServer{{Name: "s", Command: "c", Args: []string{"x"}, Env: map[string]string{"T": "2"}, Headers: map[string]string{"H": "2"}}}
		})},
		"an empty list": {create, with(func(c *sessions.CreateArgs) { c.WritableRoots = []string{} })},
		"limits and guards": {send, sending(func(a *sessions.SendArgs) {
			a.WaitSeconds, a.MaxChars, a.Guard = ptr(3), 7, sessions.Guard{LeaseID: "l", Generation: "g"}
		})},
	}
	for name, c := range same {
		if meaning("v", c[0]) != meaning("v", c[1]) {
			t.Errorf("%s: another meaning", name)
		}
	}
	other := map[string][2]any{
		"content":      {send, sending(func(a *sessions.SendArgs) { a.Text = "u" })},
		"target":       {send, sending(func(a *sessions.SendArgs) { a.SessionID = "z" })},
		"deadline":     {send, sending(func(a *sessions.SendArgs) { a.DeadlineSeconds = 5 })},
		"when busy":    {send, sending(func(a *sessions.SendArgs) { a.WhenBusy = "queue" })},
		"model":        {create, with(func(c *sessions.CreateArgs) { c.Model = "n" })},
		"names of env": {create, with(func(c *sessions.CreateArgs) { c.Env = map[string]string{"B": "1"} })},
		"a server's words": {create, with(func(c *sessions.CreateArgs) {
			c.MCPServers = []sessions.MCPServer{{Name: "s", Command: "c", Args: []string{"y"}, Env: map[string]string{"T": "1"}, Headers: map[string]string{"H": "1"}}}
		})},
		"an option":         {create, with(func(c *sessions.CreateArgs) { c.RunnerOptions = map[string]any{"a": 2.0} })},
		"prompt":            {create, with(func(c *sessions.CreateArgs) { c.Prompt = "p" })},
		"a verb of one key": {send, nil},
	}
	for name, c := range other {
		if c[1] == nil {
			if meaning("send", send) == meaning("respond", send) {
				t.Errorf("%s: the same meaning", name)
			}
		} else if meaning("v", c[0]) == meaning("v", c[1]) {
			t.Errorf("%s: the same meaning", name)
		}
	}
}

// I04, ID-01: however often a command is sent, it is given once, and every repetition tells how it stands now.
func TestI04_SendIsGivenOnce(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for range 20 {
		wg.Go(func() {
			res, err := s.trySend("c")
			if err == nil && res.Command.CommandID != "c" {
				err = fmt.Errorf("%+v", res.Command)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	want := func(state sessions.CommandState) {
		t.Helper()
		if res := s.send("c"); res.Command.State != state {
			t.Errorf("repeated: %s, want %s", res.Command.State, state)
		}
		if s.given() != "open, prompt c" {
			t.Errorf("given: %s", s.given())
		}
	}
	want(sessions.CommandSubmitted)
	s.accepts("c")
	want(sessions.CommandAccepted)
	s.text("c", "done")
	s.settles("c", sessions.CommandCompleted)
	want(sessions.CommandCompleted)
	if res := s.send("c", func(a *sessions.SendArgs) { a.Guard.Generation = "an older one" }); res.Text != "done" {
		t.Errorf("the repetition gives %q", res.Text) // a guard is for what is to be done, and nothing is
	}
	s.ends(sandbox.Confirmed)
	want(sessions.CommandCompleted) // whatever became of the session
	_, err := s.trySend("c", func(a *sessions.SendArgs) { a.Text = "something else" })
	refused(t, err, sessions.CodeKeyConflict)
	other := r.idle()
	_, err = other.trySend("c") // a key belongs to its principal, not to a session
	refused(t, err, sessions.CodeKeyConflict)
	if other.given() != "open" {
		t.Errorf("given: %s", other.given())
	}
}

// I04: each verb under its key.
func TestI04_KeysOfEveryVerb(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	create := func(key, id string, change ...func(*sessions.CreateArgs)) (sessions.Session, error) {
		res, err := r.Create(ctx, r.who, r.args(append(change, func(a *sessions.CreateArgs) { a.Key, a.SessionID = key, id })...))
		return res.Session, err
	}
	v, err := create("k1", "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := create("k1", ""); err != nil || again.SessionID != v.SessionID || again.Generation != v.Generation {
		t.Errorf("%+v, %v", again, err)
	}
	if n := r.Live(); n != 1 {
		t.Errorf("%d sessions live", n)
	}
	_, err = create("k1", "", func(a *sessions.CreateArgs) { a.Model = "m" })
	refused(t, err, sessions.CodeKeyConflict, "k1")
	_, err = create("k1", sessions.NewID())
	refused(t, err, sessions.CodeKeyConflict)

	s := r.bridgeOf(v)
	s.opens()
	s.send("k2")
	id := s.asks("h", once...)
	for verb, call := range map[string]func(key string) error{
		"create": func(key string) error { _, err := create(key, ""); return err },
		"send":   func(key string) error { _, err := s.trySend(key); return err },
		"respond": func(key string) error {
			_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: "approve", Key: key})
			return err
		},
		"cancel": func(key string) error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id, Key: key})
			return err
		},
		"close": func(key string) error {
			_, err := r.Close(ctx, r.who, sessions.CloseArgs{SessionID: s.id, Key: key})
			return err
		},
		"resume": func(key string) error {
			_, err := r.Resume(ctx, r.who, sessions.ResumeArgs{SessionID: s.id, RunQueue: true, Key: key})
			return err
		},
	} {
		for _, key := range []string{"k1", "k2", v.SessionID} {
			if verb == "create" && key != "k2" || verb == "send" && key == "k2" {
				continue // their own: a session's id is a key of its create
			}
			if err := call(key); sessions.CodeOf(err) != sessions.CodeKeyConflict {
				t.Errorf("%s under key %s of another call: %v", verb, key, err)
			}
		}
		for _, key := range []string{"two words", "tab\t", string(make([]byte, 200))} {
			if err := call(key); sessions.CodeOf(err) != sessions.CodeInvalidParams {
				t.Errorf("%s under key %q: %v", verb, key, err)
			}
		}
	}
	if s.given() != "open, prompt k2" {
		t.Errorf("given: %s", s.given())
	}
	s.wants(sessions.SessionRunning, "k2", "submitted")
}

// I04: a create has two keys, its own and its session's id; each finds what either made.
func TestI04_CreateHasTwoKeys(t *testing.T) {
	r := newRig(t)
	create := func(key, id string) (string, error) {
		res, err := r.Create(t.Context(), r.who, r.args(func(a *sessions.CreateArgs) { a.Key, a.SessionID = key, id }))
		return res.Session.SessionID, err
	}
	id, other := sessions.NewID(), sessions.NewID()
	if got, err := create("k", id); err != nil || got != id {
		t.Fatal(got, err)
	}
	for _, c := range []struct{ key, id string }{{"k", id}, {"k", ""}, {"", id}, {"late", id}, {"late", ""}, {"late", id}} {
		if got, err := create(c.key, c.id); err != nil || got != id {
			t.Errorf("create with key %q and id %q: %q, %v", c.key, c.id, got, err)
		}
	}
	if got, err := create("", other); err != nil || got != other {
		t.Fatal(got, err)
	}
	for _, c := range []struct{ key, id string }{{"k", other}, {"late", other}} {
		if _, err := create(c.key, c.id); sessions.CodeOf(err) != sessions.CodeKeyConflict {
			t.Errorf("create with key %q and id %q: %v", c.key, c.id, err)
		}
	}
	// The first command is part of it, whether its id was given or not.
	first := func(change func(*sessions.CreateArgs)) (*sessions.Command, error) {
		res, err := r.Create(t.Context(), r.who, r.args(func(a *sessions.CreateArgs) { a.Key, a.Prompt = "first", "hello" }, change))
		return res.Command, err
	}
	if _, err := first(func(*sessions.CreateArgs) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := first(func(a *sessions.CreateArgs) { a.CommandID = "another" }); sessions.CodeOf(err) != sessions.CodeKeyConflict {
		t.Errorf("another command id: %v", err)
	}
	if n := r.Live(); n != 3 {
		t.Errorf("%d sessions live, want 3", n)
	}
}

// I04: a refusal before anything durable is not remembered; nor does it leave anything.
func TestI04_ARefusalIsForgotten(t *testing.T) {
	r := newRig(t)
	args := r.args(func(a *sessions.CreateArgs) { a.Key, a.Runner = "k", "nobody" })
	_, err := r.Create(t.Context(), r.who, args)
	refused(t, err, sessions.CodeRunnerMissing)
	args.Runner = "fake"
	res, err := r.Create(t.Context(), r.who, args)
	if err != nil {
		t.Fatal(err)
	}
	s := r.bridgeOf(res.Session)
	_, err = s.trySend("c")
	refused(t, err, sessions.CodeBusy, "starting", "wait for it")
	s.opens()
	s.send("c") // the same id, which was refused before
	s.wants(sessions.SessionRunning, "c", "submitted")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.launches) != 1 {
		t.Errorf("%d launches are kept", len(r.launches))
	}
}

// I04: the keys of one principal are nothing to another.
func TestI04_KeysAreThePrincipals(t *testing.T) {
	r := newRig(t)
	args := r.args(func(a *sessions.CreateArgs) { a.Key = "k" })
	mine, err := r.Create(t.Context(), r.who, args)
	if err != nil {
		t.Fatal(err)
	}
	them := sessions.Caller{Principal: "them", Env: r.who.Env}
	args.Model = "another meaning"
	theirs, err := r.Create(t.Context(), them, args)
	if err != nil || theirs.Session.SessionID == mine.Session.SessionID {
		t.Errorf("%+v, %v", theirs.Session, err)
	}
	// A session id is one for all: another's is taken, without a word about whose it is.
	_, err = r.Create(t.Context(), them, r.args(func(a *sessions.CreateArgs) { a.SessionID = mine.Session.SessionID }))
	refused(t, err, sessions.CodeKeyConflict, "was used before")
}

// I04: a repeated answer is a success without a second write, with and without a key.
func TestI04_RespondIsGivenOnce(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	answer := func(key, decision string) error {
		ctx, cancel := contextEnding(t)
		defer cancel()
		_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: decision, Key: key})
		return err
	}
	if err := within(t, func() error { return answer("k", "approve") }, func() {
		r.answering(s, id)
		s.reports(bridge.InAnswer, "h", bridge.InputWritten, nil)
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "", "another"} {
		if err := answer(key, "approve"); err != nil {
			t.Errorf("repeated under %q: %v", key, err)
		}
	}
	if err := answer("k", "deny"); sessions.CodeOf(err) != sessions.CodeKeyConflict {
		t.Errorf("another meaning: %v", err)
	}
	if err := answer("", "deny"); sessions.CodeOf(err) != sessions.CodeAlreadyAnswered {
		t.Errorf("another answer: %v", err)
	}
	// once is what is meant when no scope is named
	_, err := r.Respond(t.Context(), r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: "approve", Scope: "once", Key: "k"})
	if err != nil {
		t.Errorf("with the scope named: %v", err)
	}
	n := 0
	for _, in := range s.inputs() {
		if in.Kind == journal.InputAnswer {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the answer was given %d times", n)
	}
}
