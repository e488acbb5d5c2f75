package sessions

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func approval(options ...Option) *Request {
	return &Request{RequestID: "r", Handle: "h", Kind: RequestApproval, Options: options}
}

// I-08 and AP-04: options are chosen by what they do, never by their place, and echoed exactly.
func TestI08_ApproveMeansThisOnce(t *testing.T) {
	always, once := Option{OptionID: "x1", Kind: OptionAllowAlways}, Option{OptionID: "x2", Kind: OptionAllowOnce}
	session, reject := Option{OptionID: "s", Kind: OptionAllowSession}, Option{OptionID: "zz", Kind: OptionRejectOnce}
	never, cancel := Option{OptionID: "n", Kind: OptionRejectAlways}, Option{OptionID: "c", Kind: OptionCancelTurn}
	for name, c := range map[string]struct {
		r                       *Request
		decision, option, scope string
		want                    Answer
		code                    Code
	}{
		"deny without a rejecting option":  {r: approval(always, once), decision: "deny", want: Answer{Handle: "h", Decline: true}},
		"deny":                             {r: approval(always, once, reject), decision: "deny", want: Answer{Handle: "h", OptionID: "zz"}},
		"deny is the narrowest":            {r: approval(never, cancel, reject), decision: "deny", want: Answer{Handle: "h", OptionID: "zz"}},
		"deny ends the turn where it must": {r: approval(never, cancel), decision: "deny", want: Answer{Handle: "h", OptionID: "c"}},
		"deny is never for ever":           {r: approval(never), decision: "deny", want: Answer{Handle: "h", Decline: true}},
		"approve":                          {r: approval(always, once), decision: "approve", want: Answer{Handle: "h", OptionID: "x2"}},
		"approve once":                     {r: approval(always, session, once), decision: "approve", scope: "once", want: Answer{Handle: "h", OptionID: "x2"}},
		"approve for the session":          {r: approval(always, once, session), decision: "approve", scope: "session", want: Answer{Handle: "h", OptionID: "s"}},
		"approve is never wider":           {r: approval(always, session), decision: "approve", code: CodeUnsupported},
		"session is never narrower":        {r: approval(once, always), decision: "approve", scope: "session", code: CodeUnsupported},
		"always only by its id":            {r: approval(once, always), option: "x1", want: Answer{Handle: "h", OptionID: "x1"}},
		"scope always":                     {r: approval(once, always), decision: "approve", scope: "always", code: CodeInvalidParams},
		"deny for the session":             {r: approval(reject), decision: "deny", scope: "session", code: CodeInvalidParams},
		"an id by its place":               {r: approval(once), option: "0", code: CodeInvalidParams},
		"an id in another case":            {r: approval(once), option: "X2", code: CodeInvalidParams},
		"a decision that is none":          {r: approval(once), decision: "yes", code: CodeInvalidParams},
		"nothing":                          {r: approval(once), code: CodeInvalidParams},
		"two at once":                      {r: approval(once), decision: "approve", option: "x2", code: CodeInvalidParams},
		"approve a question":               {r: &Request{Kind: RequestQuestion, Options: []Option{once}}, decision: "approve", code: CodeInvalidParams},
		"deny a question":                  {r: &Request{Handle: "h", Kind: RequestQuestion}, decision: "deny", want: Answer{Handle: "h", Decline: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.r.Resolve(c.decision, c.option, c.scope, nil, nil)
			if CodeOf(err) != c.code || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, c.want, c.code)
			}
			if err != nil && AsError(err).Action == "" {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}

// In whatever order the agent lists its options, and whatever it calls them: approving never picks a wider one, denying
// never an allowing one.
func TestResolveDoesNotLookAtTheOrder(t *testing.T) {
	kinds := []OptionKind{OptionAllowOnce, OptionAllowSession, OptionAllowAlways, OptionRejectOnce, OptionRejectAlways, OptionCancelTurn, "another"}
	rapid.Check(t, func(t *rapid.T) {
		r := approval()
		byID := map[string]OptionKind{}
		for _, k := range rapid.SliceOf(rapid.SampledFrom(kinds)).Draw(t, "kinds") {
			id := rapid.String().Filter(func(s string) bool { return s != "" && byID[s] == "" }).Draw(t, "id")
			byID[id] = k
			r.Options = append(r.Options, Option{OptionID: id, Kind: k, Label: "Allow"})
		}
		if a, err := r.Resolve("approve", "", "", nil, nil); err == nil && byID[a.OptionID] != OptionAllowOnce {
			t.Fatalf("approve picked %q", byID[a.OptionID])
		}
		if a, err := r.Resolve("approve", "", "session", nil, nil); err == nil && byID[a.OptionID] != OptionAllowSession {
			t.Fatalf("approve for the session picked %q", byID[a.OptionID])
		}
		a, err := r.Resolve("deny", "", "", nil, nil)
		if err != nil || a.Decline == (a.OptionID != "") {
			t.Fatalf("deny: %+v, %v", a, err)
		}
		if k := byID[a.OptionID]; a.OptionID != "" && k != OptionRejectOnce && k != OptionCancelTurn {
			t.Fatalf("deny picked %q", k)
		}
		for id := range byID {
			if a, err := r.Resolve("", id, "", nil, nil); err != nil || a.OptionID != id {
				t.Fatalf("%q by its id: %+v, %v", id, a, err)
			}
		}
	})
}

func TestResolveAnswersQuestions(t *testing.T) {
	r := &Request{RequestID: "r", Handle: "h", Kind: RequestQuestion, Questions: []Question{
		{ID: "q1", Options: []QuestionOption{{ID: "a", Label: "Keep"}, {ID: "b", Label: "Drop"}, {ID: "c", Label: "Same"}, {ID: "d", Label: "Same"}, {ID: "Keep", Label: "x"}}},
		{ID: "q2", Multiple: true, FreeText: true, Options: []QuestionOption{{ID: "m", Label: "M"}}},
	}}
	type answers = map[string][]string
	for name, c := range map[string]struct {
		give, want answers
		code       Code
	}{
		"by id":                   {give: answers{"q1": {"b"}, "q2": {"m"}}, want: answers{"q1": {"b"}, "q2": {"m"}}},
		"by label":                {give: answers{"q1": {"Drop"}, "q2": {"M"}}, want: answers{"q1": {"b"}, "q2": {"m"}}},
		"an id wins over a label": {give: answers{"q1": {"Keep"}, "q2": {"m"}}, want: answers{"q1": {"Keep"}, "q2": {"m"}}},
		"several and free text":   {give: answers{"q1": {"a"}, "q2": {"m", "of my own"}}, want: answers{"q1": {"a"}, "q2": {"m", "of my own"}}},
		"a label of two":          {give: answers{"q1": {"Same"}, "q2": {"m"}}, code: CodeInvalidParams},
		"free text not taken":     {give: answers{"q1": {"of my own"}, "q2": {"m"}}, code: CodeInvalidParams},
		"several not taken":       {give: answers{"q1": {"a", "b"}, "q2": {"m"}}, code: CodeInvalidParams},
		"one left out":            {give: answers{"q1": {"a"}}, code: CodeInvalidParams},
		"one empty":               {give: answers{"q1": {"a"}, "q2": {}}, code: CodeInvalidParams},
		"one too many":            {give: answers{"q1": {"a"}, "q2": {"m"}, "q3": {"x"}}, code: CodeInvalidParams},
		"none":                    {give: answers{}, code: CodeInvalidParams},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.Resolve("", "", "", c.give, nil)
			if CodeOf(err) != c.code || !reflect.DeepEqual(got.Answers, c.want) {
				t.Errorf("got %+v, %v; want %v, %q", got, err, c.want, c.code)
			}
			if err != nil && strings.Contains(err.Error(), "of my own") {
				t.Errorf("%v repeats an answer, which may be secret", err)
			}
		})
	}
	if _, err := approval().Resolve("", "", "", answers{"q": {"a"}}, nil); CodeOf(err) != CodeInvalidParams {
		t.Errorf("answers to an approval: %v", err)
	}
}

func TestResolveForms(t *testing.T) {
	form := json.RawMessage(`{"a":1}`)
	r := &Request{Handle: "h", Kind: RequestQuestion, Schema: json.RawMessage(`{"type":"object"}`)}
	if a, err := r.Resolve("", "", "", nil, form); err != nil || a.Handle != "h" || string(a.Form) != string(form) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := approval().Resolve("", "", "", nil, form); CodeOf(err) != CodeInvalidParams {
		t.Errorf("a form for an approval: %v", err)
	}
}

// An answer is an option's id, a label that names one, or text where it is taken; each refusal says what there is.
func TestQuestionAnswers(t *testing.T) {
	options := []QuestionOption{{ID: "r", Label: "Red"}, {ID: "b1", Label: "Blue"}, {ID: "b2", Label: "Blue"}}
	for _, tc := range []struct {
		given string
		free  bool
		want  string // the answer, or what the refusal says
		bad   bool
	}{
		{"r", false, "r", false}, {"Red", false, "r", false}, {"b2", true, "b2", false},
		{"Blue", true, "2 options of the label", true}, {"Green", true, "Green", false},
		{"Green", false, "r (Red), b1 (Blue)", true},
	} {
		q := Request{Kind: RequestQuestion, Questions: []Question{{ID: "c", FreeText: tc.free, Options: options}}}
		a, err := q.Resolve("", "", "", map[string][]string{"c": {tc.given}}, nil)
		switch {
		case tc.bad && (CodeOf(err) != CodeInvalidParams || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.given, err, tc.want)
		case !tc.bad && (err != nil || a.Answers["c"][0] != tc.want):
			t.Errorf("%s: %v, %v", tc.given, a, err)
		}
	}
}
