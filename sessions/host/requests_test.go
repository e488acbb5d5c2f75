package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

func options(kinds ...sessions.OptionKind) []sessions.Option {
	var out []sessions.Option
	for i, k := range kinds {
		out = append(out, sessions.Option{OptionID: string(rune('a' + i)), Kind: k})
	}
	return out
}

// I08, AP-04: a policy chooses by kind, never widens, and leaves to a person what is not one single thing.
func TestI08_PolicyAnswers(t *testing.T) {
	const none = "none at all"
	allow, always, session := sessions.OptionAllowOnce, sessions.OptionAllowAlways, sessions.OptionAllowSession
	reject, never, cancel := sessions.OptionRejectOnce, sessions.OptionRejectAlways, sessions.OptionCancelTurn
	for name, c := range map[string]struct {
		policy string
		kind   sessions.RequestKind
		tool   string
		offers []sessions.Option
		want   string // option id, "declined" or none
	}{
		"no policy":                           {"", sessions.RequestApproval, "command", options(allow, reject), none},
		"a policy of tomorrow":                {"approve-some", sessions.RequestApproval, "command", options(allow), none},
		"approve the narrowest":               {autoApproveAll, sessions.RequestApproval, "command", options(always, allow, reject), "b"},
		"two that allow once (AP-04 case 4)":  {autoApproveAll, sessions.RequestApproval, "command", options(allow, allow), none},
		"nothing that allows once":            {autoApproveAll, sessions.RequestApproval, "command", options(always, session, reject), none},
		"nothing offered":                     {autoApproveAll, sessions.RequestApproval, "command", nil, none},
		"a question":                          {autoApproveAll, sessions.RequestQuestion, "", options(allow), none},
		"edits: a change of files":            {autoApproveEdits, sessions.RequestApproval, "file_change", options(allow, reject), "a"},
		"edits: ACP's edit":                   {autoApproveEdits, sessions.RequestApproval, "edit", options(reject, allow), "b"},
		"edits: a command":                    {autoApproveEdits, sessions.RequestApproval, "command", options(allow), none},
		"edits: ACP's delete":                 {autoApproveEdits, sessions.RequestApproval, "delete", options(allow), none},
		"edits: no tool":                      {autoApproveEdits, sessions.RequestApproval, "", options(allow), none},
		"deny the narrowest":                  {autoDenyAll, sessions.RequestApproval, "command", options(allow, never, reject), "c"},
		"deny, where only the turn can end":   {autoDenyAll, sessions.RequestApproval, "command", options(allow, cancel), "b"},
		"deny, where nothing rejects (AP-04)": {autoDenyAll, sessions.RequestApproval, "command", options(always, allow), "declined"},
		"deny a question":                     {autoDenyAll, sessions.RequestQuestion, "", nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.runs(func(a *sessions.CreateArgs) {
				if a.AutoAnswer = c.policy; c.policy == "approve-some" {
					a.AutoAnswer = ""
				}
			})
			q := sessions.Request{Handle: "h", Kind: c.kind, Options: c.offers}
			if c.tool != "" {
				q.Tool = &sessions.Tool{Name: c.tool}
			}
			if c.policy == "approve-some" { // an older journal's, or a newer one's
				if _, ok := policyAnswer(c.policy, &q); ok {
					t.Error("it answered")
				}
				return
			}
			kind := sessions.EventApprovalRequested
			if c.kind == sessions.RequestQuestion {
				kind = sessions.EventQuestionRequested
			}
			id := s.raises(sessions.Event{Kind: kind, Request: &q})
			got := s.request(id)
			if c.want == none {
				if got.State != sessions.RequestPending || got.Answer != nil {
					t.Errorf("%s with %+v", got.State, got.Answer)
				}
				return
			}
			if got.State != sessions.RequestAnswering || got.AnsweredBy != "policy:"+c.policy {
				t.Errorf("%s by %q", got.State, got.AnsweredBy)
			}
			if a := got.Answer; a == nil || a.Decline != (c.want == "declined") || !a.Decline && a.OptionID != c.want {
				t.Errorf("answered with %+v, want %s", a, c.want)
			}
			s.reports(bridge.InAnswer, "h", bridge.InputWritten, nil)
			if e := s.events(sessions.EventRequestResolved); len(e) != 1 || e[0].Request.AnsweredBy != "policy:"+c.policy {
				t.Errorf("the event names %+v", e)
			}
		})
	}
}

// answer answers a request while its bridge does as then says.
func (s *session) answer(id string, a sessions.RespondArgs, then func()) (sessions.RespondResult, error) {
	s.r.t.Helper()
	var res sessions.RespondResult
	a.SessionID, a.RequestID = s.id, id
	err := within(s.r.t, func() (err error) {
		res, err = s.r.Respond(s.r.t.Context(), s.r.who, a)
		return err
	}, then)
	return res, err
}

var approve = sessions.RespondArgs{Decision: "approve"}

// I07: an answer is journalled before it is given; what became of it is told.
func TestI07_FateOfAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(s *session)
		state sessions.RequestState
		code  sessions.Code
	}{
		"written":   {func(s *session) { s.reports(bridge.InAnswer, "h", bridge.InputWritten, nil) }, sessions.RequestAnswered, ""},
		"refused":   {func(s *session) { s.reports(bridge.InAnswer, "h", bridge.InputRefused, errors.New("no")) }, sessions.RequestWithdrawn, sessions.CodeWithdrawn},
		"broken":    {func(s *session) { s.reports(bridge.InAnswer, "h", bridge.InputBroken, errors.New("no")) }, sessions.RequestUnknown, sessions.CodeOutcomeUnknown},
		"withdrawn": {func(s *session) { s.resolves("h", "the turn ended") }, sessions.RequestWithdrawn, sessions.CodeWithdrawn},
		"agent gone": {func(s *session) { s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}}) },
			sessions.RequestUnknown, sessions.CodeOutcomeUnknown},
		"bridge gone": {func(s *session) { s.ends(sandbox.Confirmed) }, sessions.RequestUnknown, sessions.CodeOutcomeUnknown},
		"agent gone, and the bridge had not come to it": {func(s *session) {
			s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}, Taken: 2})
		}, sessions.RequestExpired, sessions.CodeStaleGeneration},
		"agent gone, and the bridge had begun it": {func(s *session) {
			s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}, Taken: 3})
		}, sessions.RequestUnknown, sessions.CodeOutcomeUnknown},
		"bridge gone, and no host had sent it": {func(s *session) {
			s.ends(sandbox.Confirmed, func(e *ending) { e.neverSent = func(n uint64) bool { return n > 2 } })
		}, sessions.RequestExpired, sessions.CodeStaleGeneration},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.runs()
			id := s.asks("h", once...)
			res, err := s.answer(id, approve, func() {
				r.answering(s, id)
				if s.given() != "open, prompt c, answer "+id {
					t.Errorf("given: %s", s.given())
				}
				c.then(s)
			})
			if sessions.CodeOf(err) != c.code || res.Request.State != c.state {
				t.Errorf("%s, %v; want %s, %s", res.Request.State, err, c.state, c.code)
			}
			got := s.events(sessions.EventRequestResolved)
			if len(got) != 1 || got[0].Request.State != c.state || got[0].Request.RequestID != id {
				t.Errorf("told as %+v", got)
			}
			if _, err := s.answer(id, approve, func() {}); c.code != "" && sessions.CodeOf(err) != c.code {
				t.Errorf("answered again: %v", err)
			}
			s.resolves("h", "once more")
			if n := len(s.events(sessions.EventRequestResolved)); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// resolves is the agent taking a request back.
func (s *session) resolves(handle, reason string) {
	s.r.t.Helper()
	s.says(sessions.Event{Kind: sessions.EventRequestResolved, Request: &sessions.Request{Handle: handle, State: sessions.RequestWithdrawn, Reason: reason}})
}

// I07: a request that is over is refused as what it is.
func TestI07_LateAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		over func(*session)
		code sessions.Code
		says string
	}{
		"withdrawn":   {func(s *session) { s.resolves("h", "the turn was cancelled") }, sessions.CodeWithdrawn, "the turn was cancelled"},
		"agent gone":  {func(s *session) { s.frame(bridge.OutExited, bridge.Exit{Reason: "exit", Running: []string{"c"}}) }, sessions.CodeStaleGeneration, "resume the session"},
		"bridge gone": {func(s *session) { s.ends(sandbox.Confirmed) }, sessions.CodeStaleGeneration, "resume the session"},
		"closing": {func(s *session) {
			if _, err := s.r.Close(s.r.t.Context(), s.r.who, sessions.CloseArgs{SessionID: s.id, WaitSeconds: ptr(0)}); err != nil {
				s.r.t.Fatal(err)
			}
		}, sessions.CodeNotRunning, "being closed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).runs()
			id := s.asks("h", once...)
			c.over(s)
			before := s.given()
			_, err := s.answer(id, approve, func() {})
			refused(t, err, c.code, c.says)
			if s.given() != before {
				t.Errorf("given: %s", s.given())
			}
		})
	}
	t.Run("of a later generation", func(t *testing.T) {
		r := newRig(t)
		s := r.runs()
		id := s.asks("h", once...)
		s.settles("c", sessions.CommandCompleted)
		s.ends(sandbox.Confirmed)
		res, err := r.Resume(t.Context(), r.who, sessions.ResumeArgs{SessionID: s.id, WaitSeconds: ptr(0)})
		if err != nil {
			t.Fatal(err)
		}
		next := r.bridgeOf(res.Session)
		next.opens()
		again := next.asks("h", once...) // the agent's handles may repeat, ours do not
		_, err = next.answer(id, approve, func() {})
		refused(t, err, sessions.CodeStaleGeneration)
		if q := next.request(again); again == id || q.State != sessions.RequestPending || next.given() != "open" {
			t.Errorf("%+v, given %s", q.Request, next.given())
		}
	})
}

// I07, AP-03: of two answers at the same moment one wins, and the other is told which.
func TestI07_TheFirstAnswerWins(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			a := sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: []string{"approve", "deny"}[i%2]}
			_, errs[i] = r.Respond(t.Context(), r.who, a)
		})
	}
	r.answering(s, id)
	s.reports(bridge.InAnswer, "h", bridge.InputWritten, nil)
	wg.Wait()
	won := s.request(id).Answer.OptionID
	for i, err := range errs {
		if mine := []string{"yes", "no"}[i%2]; mine == won && err != nil {
			t.Errorf("%s won, and was told %v", mine, err)
		} else if mine != won {
			refused(t, err, sessions.CodeAlreadyAnswered, "local", won)
		}
	}
	if n := strings.Count(s.given(), "answer"); n != 1 {
		t.Errorf("given: %s", s.given())
	}
}

// The key of an answer that was given before stands for it as the first one's does.
func TestI04_KeyOfARepeatedAnswer(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	respond := func(key, decision string) error {
		_, err := r.Respond(t.Context(), r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: decision, Key: key})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- respond("first", "approve") }()
	r.answering(s, id)
	s.reports(bridge.InAnswer, "h", bridge.InputWritten, nil)
	if err := errors.Join(<-first, respond("second", "approve"), respond("second", "approve")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"first", "second"} {
		refused(t, respond(key, "deny"), sessions.CodeKeyConflict, key)
	}
	refused(t, respond("third", "deny"), sessions.CodeAlreadyAnswered)
	if err := respond("third", "approve"); err != nil {
		t.Errorf("a key whose call was refused before anything was kept: %v", err)
	}
}

// What an answer may be is the request's to say; a wrong one changes nothing.
func TestWrongAnswers(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	question := s.raises(sessions.Event{Kind: sessions.EventQuestionRequested, Request: &sessions.Request{Handle: "q", Kind: sessions.RequestQuestion,
		Questions: []sessions.Question{{ID: "x", Options: []sessions.QuestionOption{{ID: "1", Label: "one"}}}}}})
	other := newRig(t).runs()
	foreign := other.asks("h", once...)
	for name, c := range map[string]struct {
		id   string
		a    sessions.RespondArgs
		code sessions.Code
	}{
		"nothing":               {id, sessions.RespondArgs{}, sessions.CodeInvalidParams},
		"two things":            {id, sessions.RespondArgs{Decision: "approve", OptionID: "yes"}, sessions.CodeInvalidParams},
		"an option not offered": {id, sessions.RespondArgs{OptionID: "maybe"}, sessions.CodeInvalidParams},
		"no such decision":      {id, sessions.RespondArgs{Decision: "perhaps"}, sessions.CodeInvalidParams},
		"a scope not offered":   {id, sessions.RespondArgs{Decision: "approve", Scope: "session"}, sessions.CodeUnsupported},
		"answers to approval":   {id, sessions.RespondArgs{Answers: map[string][]string{"x": {"1"}}}, sessions.CodeInvalidParams},
		"approve a question":    {question, sessions.RespondArgs{Decision: "approve"}, sessions.CodeInvalidParams},
		"no such choice":        {question, sessions.RespondArgs{Answers: map[string][]string{"x": {"2"}}}, sessions.CodeInvalidParams},
		"no id":                 {"", approve, sessions.CodeInvalidParams},
		"no such request":       {sessions.NewID(), approve, sessions.CodeNotFound},
		"of another session":    {foreign, approve, sessions.CodeNotFound},
	} {
		if _, err := s.answer(c.id, c.a, func() {}); sessions.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if s.given() != "open, prompt c" || s.request(id).State != sessions.RequestPending {
		t.Errorf("given: %s", s.given())
	}
	if v := s.view(); !v.NeedsInput || len(v.Requests) != 2 || !strings.Contains(v.Recovery, id) {
		t.Errorf("%+v", v)
	}
}

// What was answered to a question is in no event; that it was answered, and by whom, is.
func TestAnswersOfQuestionsAreNotTold(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.raises(sessions.Event{Kind: sessions.EventQuestionRequested, Request: &sessions.Request{Handle: "q", Kind: sessions.RequestQuestion,
		Questions: []sessions.Question{{ID: "x", Secret: true, FreeText: true}}}})
	if _, err := s.answer(id, sessions.RespondArgs{Answers: map[string][]string{"x": {"hunter2"}}}, func() {
		r.answering(s, id)
		s.reports(bridge.InAnswer, "q", bridge.InputWritten, nil)
	}); err != nil {
		t.Fatal(err)
	}
	for _, e := range s.events() {
		if e.Request != nil && e.Request.Answer != nil && len(e.Request.Answer.Answers) > 0 {
			t.Errorf("%s tells %v", e.Kind, e.Request.Answer)
		}
	}
	_, err := s.answer(id, sessions.RespondArgs{Answers: map[string][]string{"x": {"other"}}}, func() {})
	refused(t, err, sessions.CodeAlreadyAnswered)
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// A respond waits for its delivery no longer than its caller does, and the answer stands.
func TestRespondIsLeft(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	ctx, cancel := context.WithCancel(t.Context())
	err := within(t, func() error {
		_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: "approve"})
		return err
	}, func() {
		r.answering(s, id)
		cancel()
	})
	if !errors.Is(err, context.Canceled) || s.request(id).State != sessions.RequestAnswering {
		t.Errorf("%v, %s", err, s.request(id).State)
	}
}

// A request of a turn comes with its command and session; one that is unreadable is no request.
func TestRequestIsBound(t *testing.T) {
	s := newRig(t).runs()
	id := s.raises(sessions.Event{Kind: sessions.EventApprovalRequested, Command: "c", Request: &sessions.Request{Handle: "h", RequestID: "the agent's own",
		Session: "x", Generation: "y", State: sessions.RequestAnswered, Kind: sessions.RequestApproval}})
	q := s.request(id)
	if q.Session != s.id || q.Generation != s.generation || q.Command != "c" || q.State != sessions.RequestPending || q.RequestID == "the agent's own" {
		t.Errorf("%+v", q.Request)
	}
	if e := s.events(sessions.EventApprovalRequested); len(e) != 1 || e[0].Request.RequestID != id {
		t.Errorf("%+v", e)
	}
	s.asks("h", once...) // a handle that was used before
	if n := len(s.events(sessions.EventError)); n != 1 || !slices.Contains(kindsOf(s.events()), sessions.EventError) {
		t.Errorf("%d errors are told", n)
	}
}
