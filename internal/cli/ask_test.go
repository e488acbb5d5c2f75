package cli

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func TestAnswersAtATerminal(t *testing.T) {
	approval := sessions.Request{Session: "s", RequestID: "r", Kind: sessions.RequestApproval, Options: []sessions.Option{
		{OptionID: "ok", Kind: sessions.OptionAllowOnce}, {OptionID: "2", Kind: sessions.OptionRejectOnce}, {OptionID: "y", Kind: sessions.OptionAllowSession}}}
	plain := approval
	plain.Options = plain.Options[:1]
	one := sessions.Request{Session: "s", RequestID: "r", Kind: sessions.RequestQuestion, Questions: []sessions.Question{
		{ID: "color", Options: []sessions.QuestionOption{{ID: "r", Label: "Red"}, {ID: "n", Label: "None"}}}}}
	two := sessions.Request{Session: "s", RequestID: "r", Kind: sessions.RequestQuestion, Questions: []sessions.Question{
		{ID: "many", Multiple: true, Options: []sessions.QuestionOption{{ID: "a"}, {ID: "b"}}}, {ID: "free", FreeText: true}}}
	form := sessions.Request{Session: "s", RequestID: "r", Kind: sessions.RequestQuestion, Schema: json.RawMessage(`{}`), Questions: []sessions.Question{{ID: "x"}}}
	for name, tc := range map[string]struct {
		q     sessions.Request
		lines []string
		want  sessions.RespondArgs // without ids
		wrong int                  // lines that are no answer
	}{
		"yes":                       {plain, []string{"y"}, sessions.RespondArgs{Decision: "approve"}, 0},
		"yes, in words":             {plain, []string{" approve "}, sessions.RespondArgs{Decision: "approve"}, 0},
		"no":                        {plain, []string{"n"}, sessions.RespondArgs{Decision: "deny"}, 0},
		"by number":                 {approval, []string{"1"}, sessions.RespondArgs{OptionID: "ok"}, 0},
		"an id that looks a number": {approval, []string{"2"}, sessions.RespondArgs{OptionID: "2"}, 0},
		"an id that looks a yes":    {approval, []string{"y"}, sessions.RespondArgs{OptionID: "y"}, 0},
		"nothing, then something":   {plain, []string{"", "0", "2", "maybe", "yes"}, sessions.RespondArgs{Decision: "approve"}, 4},
		"an option by its label":    {one, []string{"Green", "Red"}, sessions.RespondArgs{Answers: map[string][]string{"color": {"Red"}}}, 1},
		"an option that looks a no": {one, []string{"n"}, sessions.RespondArgs{Answers: map[string][]string{"color": {"n"}}}, 0},
		"a question denied":         {one, []string{"deny"}, sessions.RespondArgs{Decision: "deny"}, 0},
		"several, then text":        {two, []string{"a, c", "a, b", "what I say"}, sessions.RespondArgs{Answers: map[string][]string{"many": {"a", "b"}, "free": {"what I say"}}}, 1},
		"denied at the second":      {two, []string{"a", "n"}, sessions.RespondArgs{Decision: "deny"}, 0},
		"a form":                    {form, []string{"[1]", "{", `{"x":1}`}, sessions.RespondArgs{Form: json.RawMessage(`{"x":1}`)}, 2},
		"a form denied":             {form, []string{"no"}, sessions.RespondArgs{Decision: "deny"}, 0},
	} {
		a := newAsking(&tc.q)
		wrong := 0
		var got *sessions.RespondArgs
		for i, line := range tc.lines {
			if a.prompt() == "" {
				t.Errorf("%s: nothing asks for line %d", name, i)
			}
			answer, why := a.take(line)
			if why != "" {
				wrong++
			}
			if got = answer; got != nil && i != len(tc.lines)-1 {
				t.Errorf("%s: answered by line %d already", name, i)
			}
		}
		tc.want.SessionID, tc.want.RequestID = "s", "r"
		if got == nil || !reflect.DeepEqual(*got, tc.want) || wrong != tc.wrong {
			t.Errorf("%s: %+v with %d lines that are no answer, want %+v with %d", name, got, wrong, tc.want, tc.wrong)
		}
	}
}
