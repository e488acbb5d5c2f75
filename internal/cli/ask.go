package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// asking is a request that a person is asked at a terminal: one line for an approval or a form, one for each question.
type asking struct {
	q       *sessions.Request
	step    int
	answers map[string][]string
}

func newAsking(q *sessions.Request) *asking {
	return &asking{q: q, answers: map[string][]string{}}
}

// questions tells whether each question gets a line.
func (a *asking) questions() bool {
	return a.q.Kind == sessions.RequestQuestion && len(a.q.Questions) > 0 && len(a.q.Schema) == 0
}

// prompt are the words before which the next answer is typed.
func (a *asking) prompt() string {
	switch {
	case a.questions():
		q := a.q.Questions[a.step]
		var how []string
		for _, o := range q.Options {
			how = append(how, o.ID)
		}
		if q.FreeText || len(how) == 0 {
			how = append(how, "text")
		}
		many := ""
		if q.Multiple {
			many = ", several with commas"
		}
		return fmt.Sprintf("%s (%s%s; n denies)? ", q.ID, strings.Join(how, " / "), many)
	case len(a.q.Schema) > 0:
		return "a JSON object, or n to deny? "
	}
	return "approve (y), deny (n), or an option by its id or number? "
}

// secret tells whether the next answer must not be seen.
func (a *asking) secret() bool { return a.questions() && a.q.Questions[a.step].Secret }

// take understands one line. It gives the answer when it has all of it, or says what is wrong with the line; with
// neither the next line is wanted.
func (a *asking) take(line string) (answer *sessions.RespondArgs, wrong string) {
	line = strings.TrimSpace(line)
	answer = &sessions.RespondArgs{SessionID: a.q.Session, RequestID: a.q.RequestID}
	deny := line == "n" || line == "no" || line == "deny"
	switch {
	case line == "":
		return nil, "nothing was answered"
	case a.questions():
		return a.takeAnswer(answer, line, deny)
	case deny:
		answer.Decision = "deny"
		return answer, ""
	case len(a.q.Schema) > 0:
		if line[0] != '{' || !json.Valid([]byte(line)) {
			return nil, "that is no JSON object"
		}
		answer.Form = json.RawMessage(line)
		return answer, ""
	}
	for _, o := range a.q.Options {
		if o.OptionID == line {
			answer.OptionID = line
			return answer, ""
		}
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(a.q.Options) {
		answer.OptionID = a.q.Options[n-1].OptionID
		return answer, ""
	}
	if line == "y" || line == "yes" || line == "approve" {
		answer.Decision = "approve"
		return answer, ""
	}
	return nil, "that is no answer, and nothing was sent"
}

func (a *asking) takeAnswer(answer *sessions.RespondArgs, line string, deny bool) (*sessions.RespondArgs, string) {
	q := a.q.Questions[a.step]
	given := []string{line}
	if q.Multiple {
		given = nil
		for _, g := range strings.Split(line, ",") {
			given = append(given, strings.TrimSpace(g))
		}
	}
	for _, g := range given {
		switch offered := offers(q, g); {
		case deny && !offered:
			answer.Decision = "deny"
			return answer, ""
		case !offered && !q.FreeText && len(q.Options) > 0:
			return nil, fmt.Sprintf("%q is not offered", g)
		}
	}
	a.answers[q.ID] = given
	if a.step++; a.step < len(a.q.Questions) {
		return nil, ""
	}
	answer.Answers = a.answers
	return answer, ""
}

func offers(q sessions.Question, given string) bool {
	for _, o := range q.Options {
		if o.ID == given || o.Label == given {
			return true
		}
	}
	return false
}
