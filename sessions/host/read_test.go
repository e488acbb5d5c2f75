package host

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

func (r *rig) read(a sessions.ReadArgs) (sessions.ReadResult, error) {
	return r.Read(r.t.Context(), r.who, a)
}

// I11: a cursor names its session, is refused elsewhere and beyond the end, and never skips or repeats.
func TestI11_CursorsAreRefused(t *testing.T) {
	r := newRig(t)
	s, other := r.idle(), r.idle()
	for name, cursor := range map[string]string{
		"another session's": other.view().Cursor,
		"beyond the end":    sessions.EncodeCursor(s.id, 9999),
		"before the start":  sessions.EncodeCursor(s.id, -1),
		"no cursor":         "abc",
		"another version's": base64.RawURLEncoding.EncodeToString([]byte("2:" + s.id + ":1")),
		"a list's":          base64.RawURLEncoding.EncodeToString([]byte("L:1")),
	} {
		if _, err := r.read(sessions.ReadArgs{SessionID: s.id, After: cursor}); sessions.CodeOf(err) != sessions.CodeCursorInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, a := range map[string]sessions.ReadArgs{
		"limit below zero": {SessionID: s.id, Limit: -1},
		"limit too high":   {SessionID: s.id, Limit: sessions.MaxReadLimit + 1},
		"budget too high":  {SessionID: s.id, MaxChars: sessions.MaxChars + 1},
		"no such kind":     {SessionID: s.id, Kinds: []sessions.EventKind{"text", "telepathy"}},
		"no session id":    {SessionID: "../x"},
	} {
		if _, err := r.read(a); sessions.CodeOf(err) != sessions.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// I11: pages follow one another without a hole whatever filter and budget read them; what retention cut is a gap.
func TestI11_Pages(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	for i := range 50 {
		s.says(sessions.Event{Kind: sessions.EventText, Command: "c", Item: fmt.Sprint(i), Text: strings.Repeat("x", i*7)})
		if i%10 == 0 {
			s.says(sessions.Event{Kind: sessions.EventWarning, Text: fmt.Sprint("warning ", i)})
		}
	}
	all := s.events()
	for name, a := range map[string]sessions.ReadArgs{
		"by threes":      {Limit: 3},
		"by budget":      {MaxChars: 400},
		"warnings alone": {Limit: 2, Kinds: []sessions.EventKind{sessions.EventWarning}},
		"all":            {MaxChars: sessions.MaxChars, Limit: sessions.MaxReadLimit},
	} {
		a.SessionID = s.id
		var got []int64
		pages := 0
		for {
			res, err := r.read(a)
			if err != nil {
				t.Fatal(err)
			}
			if res.Gap != nil || res.Events == nil {
				t.Errorf("%s: %+v", name, res)
			}
			for _, e := range res.Events {
				got = append(got, e.Seq)
			}
			a.After = res.Cursor
			if pages++; !res.HasMore {
				break
			}
		}
		var want []int64
		for _, e := range all {
			if len(a.Kinds) == 0 || slices.Contains(a.Kinds, e.Kind) {
				want = append(want, e.Seq)
			}
		}
		if !slices.Equal(got, want) || a.After != s.view().Cursor {
			t.Errorf("%s: %d events on %d pages, want %d", name, len(got), pages, len(want))
		}
		if name == "all" && pages != 1 {
			t.Errorf("%d pages", pages)
		}
	}
	r.tx(func(tx *journal.Tx) error { _, err := tx.KeepEvents(s.id, 10); return err })
	res, err := r.read(sessions.ReadArgs{SessionID: s.id, After: sessions.EncodeCursor(s.id, 5), Limit: 2})
	first := all[len(all)-10].Seq
	if err != nil || res.Gap == nil || res.Gap.From != 6 || res.Gap.To != first-1 || res.Events[0].Seq != first {
		t.Errorf("%+v, %v", res, err)
	}
}

// The first event of a page always fits, cut at a character if it must be; what was cut is said.
func TestBudgetOfAPage(t *testing.T) {
	long := strings.Repeat("é", 100)
	for name, c := range map[string]struct {
		evs  []sessions.Event
		max  int
		n    int
		want string // what is kept of the first text, or output
	}{
		"fits":              {[]sessions.Event{{Text: "ab"}, {Text: "cd"}}, 4, 2, "ab"},
		"the second waits":  {[]sessions.Event{{Text: "ab"}, {Text: "cde"}}, 4, 1, "ab"},
		"characters":        {[]sessions.Event{{Text: "éé"}, {Text: "éé"}}, 4, 2, "éé"},
		"the first is cut":  {[]sessions.Event{{Text: long}, {Text: "x"}}, 10, 1, strings.Repeat("é", 10)},
		"nothing behind it": {[]sessions.Event{{Text: long, Raw: []byte(`{"a":1}`)}, {Kind: sessions.EventUsage}}, 10, 2, strings.Repeat("é", 10)},
		"an output":         {[]sessions.Event{{Tool: &sessions.Tool{Output: long, Detail: []byte(`{}`)}}}, 10, 1, strings.Repeat("é", 10)},
		"text and output":   {[]sessions.Event{{Text: "abc", Tool: &sessions.Tool{Output: long}}}, 10, 1, "abc"},
		"a raw message":     {[]sessions.Event{{Text: "ab", Raw: []byte(`"` + strings.Repeat(" ", 48) + `"`)}}, 10, 1, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			var evs []journal.Stored
			for _, e := range c.evs {
				s, err := journal.NewStored(e)
				if err != nil {
					t.Fatal(err)
				}
				evs = append(evs, s)
			}
			if n, err := withinBudget(evs, c.max); err != nil || n != c.n {
				t.Errorf("%d fit, want %d; %v", n, c.n, err)
			}
			e, err := evs[0].Event()
			if err != nil {
				t.Fatal(err)
			}
			text := e.Text
			if text == "" && e.Tool != nil {
				text = e.Tool.Output
			}
			kept, note, wasCut := strings.Cut(text, "\n[cut: ")
			if kept != c.want || !utf8.ValidString(text) || wasCut && !strings.Contains(note, "larger max_chars") {
				t.Errorf("kept %q", text)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab\n[cut: 2 of 3 bytes; there]"}, {"äöü", 1, "ä\n[cut: 2 of 6 bytes; there]"},
		{"😀😀", 1, "😀\n[cut: 4 of 8 bytes; there]"}, {"a\u0301b", 2, "a\u0301\n[cut: 3 of 4 bytes; there]"}, {"abc", 0, "\n[cut: 0 of 3 bytes; there]"},
	} {
		if got := cut(c.text, c.max, "there"); got != c.want {
			t.Errorf("%q to %d: %q", c.text, c.max, got)
		}
	}
}

func (r *rig) list(change ...func(*sessions.ListArgs)) sessions.ListResult {
	r.t.Helper()
	var a sessions.ListArgs
	for _, c := range change {
		c(&a)
	}
	res, err := r.List(r.t.Context(), r.who, a)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func idsOf(list []sessions.Session) []string {
	out := []string{}
	for _, s := range list {
		out = append(out, s.SessionID)
	}
	return out
}

// A list gives the newest first, by pages that neither skip nor repeat while sessions come and go.
func TestListPages(t *testing.T) {
	r := newRig(t)
	var want []string
	for range 7 {
		want = append([]string{r.starting().id}, want...)
	}
	var got []string
	page := r.list(func(a *sessions.ListArgs) { a.Limit = 3 })
	got = append(got, idsOf(page.Sessions)...)
	r.starting() // comes before the first page
	for page.Cursor != "" {
		after := page.Cursor
		page = r.list(func(a *sessions.ListArgs) { a.Limit, a.After = 3, after })
		got = append(got, idsOf(page.Sessions)...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, cursor := range []string{"abc", "TDox", "TDo", "TDotMQ", base64.RawURLEncoding.EncodeToString([]byte("L:x")), sessions.EncodeCursor(want[0], 1)} {
		_, err := r.List(t.Context(), r.who, sessions.ListArgs{After: cursor})
		if cursor == "TDox" { // L:1, which is one
			if err != nil {
				t.Error(err)
			}
			continue
		}
		refused(t, err, sessions.CodeCursorInvalid)
	}
	for _, a := range []sessions.ListArgs{{Limit: -1}, {Limit: maxList + 1}, {State: "deleted"}, {State: "odd"}} {
		_, err := r.List(t.Context(), r.who, a)
		refused(t, err, sessions.CodeInvalidParams)
	}
}

func TestListFilters(t *testing.T) {
	r := newRig(t)
	starting, idle, running := r.starting(), r.idle(), r.runs()
	closed := r.idle()
	if _, err := closed.closes(sessions.CloseArgs{}, func() { closed.closing(); closed.ends(sandbox.Confirmed) }); err != nil {
		t.Fatal(err)
	}
	failed := failedSession(r)
	gone := failedSession(r)
	if _, err := gone.closes(sessions.CloseArgs{Delete: true}, func() {}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*sessions.ListArgs)
		want   []*session
	}{
		"the live ones":  {func(*sessions.ListArgs) {}, []*session{running, idle, starting}},
		"all":            {func(a *sessions.ListArgs) { a.All = true }, []*session{failed, closed, running, idle, starting}},
		"idle":           {func(a *sessions.ListArgs) { a.State = sessions.SessionIdle }, []*session{idle}},
		"failed":         {func(a *sessions.ListArgs) { a.State = sessions.SessionFailed }, []*session{failed}},
		"another runner": {func(a *sessions.ListArgs) { a.Runner, a.All = "fakeacp", true }, nil},
		"this runner":    {func(a *sessions.ListArgs) { a.Runner = "fake" }, []*session{running, idle, starting}},
		"another place":  {func(a *sessions.ListArgs) { a.Cwd = "/" }, nil},
		"this place":     {func(a *sessions.ListArgs) { a.Cwd = r.cwd }, []*session{running, idle, starting}},
	} {
		want := []string{}
		for _, s := range c.want {
			want = append(want, s.id)
		}
		if got := idsOf(r.list(c.change).Sessions); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What was asked stands in the event of its command, once, and takes part in the budget of a page.
func TestReadGivesPrompts(t *testing.T) {
	r := newRig(t)
	s := r.idle()
	s.send("c", func(a *sessions.SendArgs) { a.Text = strings.Repeat("p", 500) })
	for max, want := range map[int]int{0: 500, 100: 100} {
		page, err := r.read(sessions.ReadArgs{SessionID: s.id, Kinds: []sessions.EventKind{sessions.EventCommandSubmitted}, MaxChars: max})
		if err != nil || len(page.Events) != 1 {
			t.Fatalf("%v, %v", page.Events, err)
		}
		if got := strings.Count(page.Events[0].Text, "p"); got < want-50 || got > want {
			t.Errorf("max_chars %d: %d characters of the prompt, want about %d", max, got, want)
		}
	}
}

// What other processes get of a page is what Read gives: with prompts, what was cut, gaps, and what was found to be none.
func TestReadJSON(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	for _, e := range []sessions.Event{
		{Kind: sessions.EventText, Command: "c", Item: "1", Text: strings.Repeat("é\n", 300)},
		{Kind: sessions.EventToolCompleted, Command: "c", Item: "2", Tool: &sessions.Tool{Name: "command", Output: "\x1b[1mbold", Detail: []byte(`{"a":1}`)}},
		{Kind: sessions.EventUsage, Command: "c", Usage: &sessions.Usage{Input: 3}},
	} {
		s.says(e)
	}
	text := slices.IndexFunc(s.events(), func(e sessions.Event) bool { return e.Kind == sessions.EventText })
	at := sessions.EncodeCursor(s.id, s.events()[text].Seq-1)
	cases := map[string]sessions.ReadArgs{
		"all": {}, "cut": {After: at, MaxChars: 50}, "one": {Limit: 1}, "at the end": {After: s.view().Cursor},
		"none of its kind": {Kinds: []sessions.EventKind{sessions.EventGap}}, "some": {Kinds: []sessions.EventKind{sessions.EventUsage, sessions.EventCommandSubmitted}},
	}
	same := func(name string, a sessions.ReadArgs) sessions.ReadResult {
		a.SessionID = s.id
		want, err := r.read(a)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.ReadJSON(t.Context(), r.who, a)
		var got sessions.ReadResult
		if err != nil || json.Unmarshal(raw, &got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, %v\nwant %+v", name, raw, err, want)
		}
		return got
	}
	for name, a := range cases {
		same(name, a)
	}
	r.tx(func(tx *journal.Tx) error { _, err := tx.KeepEvents(s.id, 2); return err })
	if got := same("a gap", sessions.ReadArgs{}); got.Gap == nil {
		t.Errorf("no gap in %+v", got)
	}
	for name, a := range map[string]sessions.ReadArgs{"another's": {SessionID: sessions.NewID()}, "a bad limit": {SessionID: s.id, Limit: -1}} {
		_, want := r.read(a)
		if _, err := r.ReadJSON(t.Context(), r.who, a); err == nil || sessions.CodeOf(err) != sessions.CodeOf(want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
