package sessions

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const long = 100_000

// fill gives every text that can be reached from v a long one, all different.
func fill(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.String:
		*n++
		v.SetString(strings.Repeat("ä", long/2) + strings.Repeat("x", *n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"` + strings.Repeat("x", 4*long) + `"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2000, 2000))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		*n++
		name := reflect.ValueOf(strings.Repeat("k", long+*n)).Convert(v.Type().Key())
		if v.Type().Elem().Kind() == reflect.Interface {
			v.SetMapIndex(name, reflect.ValueOf(strings.Repeat("v", long)))
			v.SetMapIndex(reflect.ValueOf("some"), reflect.ValueOf([]string{strings.Repeat("v", long)}))
			return
		}
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.SetMapIndex(name, value)
	}
}

// longest finds the texts beyond a bound, by their path.
func longest(path string, v reflect.Value, bound int, found map[string]int) {
	switch v.Kind() {
	case reflect.String:
		if n := v.Len(); n > bound {
			found[path] = n
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			longest(path, v.Elem(), bound, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				longest(path+"."+f.Name, v.Field(i), bound, found)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			if n := v.Len(); n > bound {
				found[path] = n
			}
			return
		}
		for i := range v.Len() {
			longest(path, v.Index(i), bound, found)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			longest(path+" key", k, bound, found)
			longest(path, v.MapIndex(k), bound, found)
		}
	}
}

// Nothing that an agent may name is longer than the bounds behind them: whatever member is added later, too.
func TestWhatAgentsNameIsBounded(t *testing.T) {
	check := func(name string, v any, but ...string) {
		t.Helper()
		found := map[string]int{}
		longest(name, reflect.ValueOf(v), maxShown, found)
		longest(name, reflect.ValueOf(v), maxSaid, found)
		for _, b := range but {
			delete(found, name+b)
		}
		for path, n := range found {
			t.Errorf("%s has %d bytes", path, n)
		}
	}
	n := 0
	var e Event
	fill(reflect.ValueOf(&e).Elem(), &n)
	// Our own, which no agent fills; what has a bound where it is read; what somebody decides by.
	own := []string{".Session", ".Generation", ".Command", ".Lease", ".Request.RequestID", ".Request.Session", ".Request.Generation", ".Request.Command",
		".Request.AnsweredBy", ".Request.State", ".Request.Kind", ".Settled.Command", ".Settled.State", ".Kind", ".Gap.Reason", ".Raw", ".Tool.Output", ".Tool.Detail",
		".Request.Tool.Output", ".Request.Tool.Detail", ".Request.Detail", ".Request.Questions.Text", ".Request.Schema", ".Selection.Evidence.Files.Name",
		".Selection.Evidence.Files.Writable", ".Selection.Evidence.Files.Private", ".Selection.Evidence.Files.Holes", ".Selection.Evidence.Files.Watched",
		".Selection.Evidence.Hidden", ".Selection.Evidence.Raw", ".Request.Options.OptionID", ".Request.Questions.ID", ".Request.Questions.Options.ID"}
	for _, f := range []string{"Model", "Effort", "Mode", "Sandbox", "ApprovalPolicy", "Profile"} {
		own = append(own, ".Selection.Asked."+f)
	}
	own = append(own, ".Request.Answer.Handle", ".Request.Answer.OptionID", ".Request.Answer.Answers", ".Request.Answer.Answers key", ".Request.Answer.Form")
	check("event", e.Bounded(nil), own...)
	if e.Kind = EventText; len(e.Bounded(nil).Text) < long {
		t.Error("a text was cut")
	}
	if err := e.Request.CheckIDs(); err == nil {
		t.Error("the request's ids pass")
	}

	var p Probe
	fill(reflect.ValueOf(&p).Elem(), &n)
	check("probe", p.Bounded(nil))
	var s ForeignSaid
	fill(reflect.ValueOf(&s.Conversations).Elem(), &n)
	for i := range s.Conversations {
		s.Conversations[i].NativeID, s.Conversations[i].Cwd = "id", "/w"
	}
	s.Conversations[1].NativeID = strings.Repeat("x", long)
	if b := s.Bounded(nil); len(b.Conversations) != len(s.Conversations)-1 {
		t.Errorf("%d conversations, one cannot be named", len(b.Conversations))
	} else {
		check("foreign", b, ".Conversations.Runner", ".Conversations.Origin", ".Conversations.HeldBy.Program")
	}
	var o Opened
	fill(reflect.ValueOf(&o).Elem(), &n)
	if _, err := o.Bounded(nil); CodeOf(err) != CodeAgentProtocol || len(err.Error()) > 500 {
		t.Errorf("a native id of %d bytes: %.600v", len(o.NativeID), err)
	}
	o.NativeID, o.History = "id", nil
	b, err := o.Bounded(nil)
	if err != nil {
		t.Fatal(err)
	}
	check("opened", b, ".Settled.Command", ".Settled.State", ".Evidence.Files.Name", ".Evidence.Files.Writable", ".Evidence.Files.Private",
		".Evidence.Files.Holes", ".Evidence.Files.Watched", ".Evidence.Hidden", ".Evidence.Raw", ".Capability.Details")
	check("error", Errorf(CodeAgentProtocol, "%s", strings.Repeat("x", long)).Do("%s", strings.Repeat("x", long)).
		With(strings.Repeat("x", long), strings.Repeat("x", long)).With("list", []string{strings.Repeat("x", long)}).Bounded(nil))
}

// What is shortened stays apart, and cut texts are whole characters.
func TestShortenedNames(t *testing.T) {
	var none Redactor
	a, b := none.short(strings.Repeat("ä", long)+"a"), none.short(strings.Repeat("ä", long)+"b")
	if a == b || len(a) > 300 || a != none.short(strings.Repeat("ä", long)+"a") || none.short("id") != "id" {
		t.Errorf("%q and %q", a, b)
	}
	for n := 10; n < 20; n++ {
		if c := none.cut(strings.Repeat("ä", 50), n); len(c) > n || !strings.HasSuffix(c, "ä…") {
			t.Errorf("%d: %q", n, c)
		}
	}
	for name, r := range map[string]Request{
		"option":    {Options: []Option{{OptionID: strings.Repeat("x", MaxAgentID+1)}}},
		"question":  {Questions: []Question{{ID: strings.Repeat("x", MaxAgentID+1)}}},
		"answer":    {Questions: []Question{{Options: []QuestionOption{{ID: strings.Repeat("x", MaxAgentID+1)}}}}},
		"choices":   {Options: make([]Option, maxChoices+1)},
		"questions": {Questions: make([]Question, maxChoices+1)},
		"form":      {Schema: make([]byte, maxShown+1)},
		"address":   {URL: strings.Repeat("x", maxLine+1)},
	} {
		if err := r.CheckIDs(); CodeOf(err) != CodeAgentProtocol || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", name, err)
		}
	}
	fits := Request{Options: []Option{{OptionID: strings.Repeat("x", MaxAgentID)}}}
	if err := fits.CheckIDs(); err != nil {
		t.Error(err)
	}
}

// put gives every text that can be reached from v the same one.
func put(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		put(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && v.Type() != reflect.TypeFor[time.Time]() {
				put(v.Field(i), text)
			}
		}
	case reflect.Slice:
		if v.Type() != reflect.TypeFor[json.RawMessage]() {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			put(v.Index(0), text)
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[map[string]any]() {
			v.Set(reflect.ValueOf(map[string]any{"some": text, text: text}))
		}
	}
}

// SE-02: of a secret that a bound divides no part is told, wherever it is divided.
func TestSecretsAtBounds(t *testing.T) {
	const secret, mask = "Q7Z5J3K9", "[redacted]"
	hide := Redactor(func(_, text string) string { return strings.ReplaceAll(text, secret, mask) })
	check := func(name string, part int, v any) {
		t.Helper()
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		told := hide.Redact(string(raw))                      // what was not cut, as it is told
		if part > len("…") && !strings.Contains(told, "x[") { // the mask may be cut itself
			t.Errorf("%s: nothing was redacted", name)
		}
		for i := range len(secret) - 1 {
			if at := strings.Index(told, secret[i:i+2]); at >= 0 {
				t.Fatalf("%s: %q is told: %s", name, secret[i:i+2], told[max(0, at-100):at+2])
			}
		}
	}
	for part := 1; part <= len(secret)+len("…"); part++ { // of it, or of it and the mark, in front of the border
		at := func(bound, long int) string {
			return strings.Repeat("x", bound-part) + secret + strings.Repeat("x", long)
		}
		for _, bound := range []int{200, maxLine, maxSaid} { // 200 of a name that is too long
			name, text := fmt.Sprint(part, " bytes before ", bound), at(bound, MaxAgentID)
			var e Event
			put(reflect.ValueOf(&e).Elem(), text)
			e.Kind = EventWarning
			check("event: "+name, part, e.Bounded(hide))
			var p Probe
			put(reflect.ValueOf(&p).Elem(), text)
			p.Models[0].ID = "id"
			check("probe: "+name, part, p.Bounded(hide))
			var s ForeignSaid
			put(reflect.ValueOf(&s.Conversations).Elem(), text)
			s.Conversations[0].NativeID, s.Conversations[0].Cwd, s.Events = "id", "/w", []Event{e}
			check("foreign: "+name, part, s.Bounded(hide))
			var o Opened
			put(reflect.ValueOf(&o).Elem(), text)
			o.NativeID, o.History = "id", nil
			o, err := o.Bounded(hide)
			if err != nil {
				t.Fatal(err)
			}
			check("opened: "+name, part, o)
			check("error: "+name, part, Errorf(Code(text), "%s", text).Do("%s", text).With(text, text).Bounded(hide))
		}
		check(fmt.Sprint("detail: ", part), part, Event{Request: &Request{Detail: at(maxShown, 100), Questions: []Question{{Text: at(maxNamed, 100)}}}}.Bounded(hide))
	}
}
