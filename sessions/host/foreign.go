package host

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// foreignLimit bounds one question about an agent's own conversations. Some agents take their time to start, and to tell
// a long one.
const foreignLimit = 40 * time.Second

// Foreign lists the conversations that agents keep and that are no sessions, asked in bridges without one.
func (h *Host) Foreign(ctx context.Context, who sessions.Caller, a sessions.ForeignArgs) (sessions.ForeignResult, error) {
	res := sessions.ForeignResult{Conversations: []sessions.Conversation{}, Problems: map[string]string{}}
	if err := free(who); err != nil {
		return res, err
	}
	if a.Limit < 0 || a.Limit > sessions.MaxConversations {
		return res, sessions.Errorf(sessions.CodeInvalidParams, "limit is %d", a.Limit).Do("use 1 to %d", sessions.MaxConversations)
	}
	if a.Cwd != "" {
		if !filepath.IsAbs(a.Cwd) {
			return res, sessions.Errorf(sessions.CodeInvalidParams, "cwd %.200q is relative", a.Cwd).Do("give an absolute path")
		}
		a.Cwd = filepath.Clean(a.Cwd)
	}
	ask := sessions.ForeignAsk{Cwd: a.Cwd, Limit: a.Limit}
	if ask.Limit == 0 {
		ask.Limit = sessions.MaxConversations
	}
	cfg, err := h.config()
	if err != nil {
		return res, err
	}
	if a.Runner != "" {
		said, err := h.foreign(ctx, who, cfg, a.Runner, ask)
		if err != nil {
			return res, err
		}
		res.Conversations = said.Conversations
	} else {
		h.foreignAll(ctx, who, cfg, ask, &res)
	}
	res.Conversations, err = h.notSessions(ctx, cfg, res.Conversations)
	return res, err
}

// free refuses a caller who is bound to folders: what agents keep is of all of them.
func free(who sessions.Caller) error {
	if len(who.Folders) > 0 {
		return sessions.Errorf(sessions.CodeUnsupported, "conversations of the agents' own are not for a caller who is bound to folders").
			Do("list them on the machine itself")
	}
	return named(who)
}

// foreignAll asks every installed runner at once. One that cannot be asked does not keep the others.
func (h *Host) foreignAll(ctx context.Context, who sessions.Caller, cfg *config.Config, ask sessions.ForeignAsk, res *sessions.ForeignResult) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, name := range cfg.Shown(lookup(who.Env)) {
		wg.Go(func() {
			said, err := h.foreign(ctx, who, cfg, name, ask)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case sessions.CodeOf(err) == sessions.CodeRunnerMissing: // it has none here
			case err != nil:
				res.Problems[name] = sessions.AsError(err).Error()
			default:
				res.Conversations = append(res.Conversations, said.Conversations...)
			}
		})
	}
	wg.Wait()
}

// foreign asks one runner.
func (h *Host) foreign(ctx context.Context, who sessions.Caller, cfg *config.Config, name string, ask sessions.ForeignAsk) (sessions.ForeignSaid, error) {
	cwd := lookup(who.Env)("HOME")
	if !filepath.IsAbs(cwd) {
		cwd = "/"
	}
	found, err := cfg.Resolve(name, cwd, lookup(who.Env))
	if err != nil {
		return sessions.ForeignSaid{}, err
	}
	spec, err := h.sessionless(cfg, who, found, name, foreignLimit)
	if err != nil {
		return sessions.ForeignSaid{}, err
	}
	said, err := h.askForeign(ctx, bridge.ForeignInput{Spec: spec, Ask: ask})
	if err != nil {
		return said, err
	}
	held := holders{}
	for i := range said.Conversations {
		c := &said.Conversations[i]
		c.Runner, c.Origin, c.Title = name, sessions.OriginForeign, titleOf(c.Title)
		c.HeldBy = held.of(c.Files)
		c.Files = nil
	}
	return said, nil
}

func (h *Host) foreignQuestion(ctx context.Context, in bridge.ForeignInput) (said sessions.ForeignSaid, err error) {
	return said, h.question(ctx, in.Spec, bridge.InForeign, in, bridge.OutForeign, &said)
}

// maxTitle is the characters of a title: with four bytes each they still fit a line of a session's.
const maxTitle = 120

// titleOf makes a title of what an agent has for one, which may be a whole prompt.
func titleOf(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	runes := []rune(strings.Join(words, " "))
	if len(runes) > maxTitle {
		runes = append(runes[:maxTitle-1], '…')
	}
	return string(runes)
}

// notSessions takes out what is a session of anybody's.
func (h *Host) notSessions(ctx context.Context, cfg *config.Config, all []sessions.Conversation) ([]sessions.Conversation, error) {
	left := []sessions.Conversation{}
	err := h.look(ctx, func(tx *journal.Tx) error {
		ours, err := tx.NativeIDs()
		left = left[:0]
		for _, c := range all {
			if !slices.ContainsFunc(ours[c.NativeID], func(runner string) bool { return cfg.SameAgent(runner, c.Runner) }) {
				left = append(left, c)
			}
		}
		return err
	})
	return left, err
}

// notAdopted refuses a conversation that a session has. Another principal's is not told of.
func notAdopted(tx *journal.Tx, cfg *config.Config, who sessions.Caller, runner, native string) error {
	list, err := tx.SessionsOfNative(native)
	i := slices.IndexFunc(list, func(s journal.Session) bool { return cfg.SameAgent(s.Runner, runner) })
	if err != nil || i < 0 {
		return err
	}
	s := list[i]
	if s.Principal != who.Principal {
		return sessions.Errorf(sessions.CodeNotFound, "%s has no conversation %.80q that could be adopted", runner, native).
			Do("baton list --foreign shows what there is")
	}
	return sessions.Errorf(sessions.CodeBusy, "conversation %s is session %s already, which is %s", native, s.ID, s.State).
		Do("use that session: session_resume takes it up when it is closed or failed").With("session_id", s.ID)
}

func checkNative(runner, native string) error {
	if runner == "" {
		return sessions.Errorf(sessions.CodeInvalidParams, "runner is missing").Do("runner_list shows what is there")
	}
	if native == "" || native[0] == '-' {
		return sessions.Errorf(sessions.CodeInvalidParams, "native_id %.80q is none", native).Do("give the id that baton list --foreign shows")
	}
	return checkLine("native_id", native)
}

// ForeignRead reads a conversation as its agent has it on record, whoever writes it.
func (h *Host) ForeignRead(ctx context.Context, who sessions.Caller, a sessions.ForeignReadArgs) (sessions.ForeignReadResult, error) {
	res := sessions.ForeignReadResult{Events: []sessions.Event{}}
	if err := free(who); err != nil {
		return res, err
	}
	c, events, err := h.record(ctx, who, a.Runner, a.NativeID, true)
	if err != nil {
		return res, err
	}
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	res.Conversation = c
	if events != nil {
		res.Events = events
	}
	return res, nil
}

// record is one conversation that is no session.
func (h *Host) record(ctx context.Context, who sessions.Caller, runner, native string, events bool) (sessions.Conversation, []sessions.Event, error) {
	var c sessions.Conversation
	if err := checkNative(runner, native); err != nil {
		return c, nil, err
	}
	cfg, err := h.config()
	if err != nil {
		return c, nil, err
	}
	if err := h.look(ctx, func(tx *journal.Tx) error { return notAdopted(tx, cfg, who, runner, native) }); err != nil {
		return c, nil, err
	}
	said, err := h.foreign(ctx, who, cfg, runner, sessions.ForeignAsk{NativeID: native, Events: events})
	if err != nil {
		return c, nil, err
	}
	if len(said.Conversations) != 1 || said.Conversations[0].NativeID != native {
		return c, nil, sessions.Errorf(sessions.CodeAgentProtocol, "%s was asked for conversation %s and told of another", runner, native).
			Do("check that its version is one that Baton knows")
	}
	return said.Conversations[0], said.Events, nil
}

// Adopt makes a session of a conversation: with its id, in its directory, with its history, and with every selection
// confirmed as always. Who else holds it keeps it.
func (h *Host) Adopt(ctx context.Context, who sessions.Caller, a sessions.AdoptArgs) (sessions.CreateResult, error) {
	var none sessions.CreateResult
	if err := free(who); err != nil {
		return none, err
	}
	if err := checkNative(a.Runner, a.NativeID); err != nil {
		return none, err
	}
	if a.SessionID != "" {
		if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
			return none, err
		}
	}
	if err := checkKey(a.Key); err != nil {
		return none, err
	}
	wait, err := seconds(a.WaitSeconds, sessions.DefaultWaitSeconds)
	if err != nil {
		return none, err
	}
	defaults(&a.Settings)
	make := creation{verb: "adopt", mean: meaning("adopt", a, "session_id"), native: a.NativeID,
		CreateArgs: sessions.CreateArgs{Runner: a.Runner, SessionID: a.SessionID, Title: a.Title, Settings: a.Settings, WaitSeconds: a.WaitSeconds, Key: a.Key}}
	_, found, err := h.reserved(ctx, who, make)
	if err != nil {
		return none, err
	}
	if !found { // else what the first call learned is with the session
		if err := h.adoptable(ctx, who, a, &make); err != nil {
			return none, err
		}
	}
	return h.make(ctx, who, make, wait)
}

// adoptable looks at a conversation before anything is stored.
func (h *Host) adoptable(ctx context.Context, who sessions.Caller, a sessions.AdoptArgs, make *creation) error {
	if err := checkSettings(&a.Settings); err != nil {
		return err
	}
	where := who
	where.Env = accountEnv(who.Env, a.Settings) // the account that the session is to have
	c, _, err := h.record(ctx, where, a.Runner, a.NativeID, false)
	switch {
	case err != nil:
		return err
	case c.HeldBy != nil:
		return sessions.HeldError(a.Runner, &c)
	case c.Cwd == "":
		return sessions.Errorf(sessions.CodeUnsupported, "%s has no directory on record for conversation %s", a.Runner, a.NativeID).
			Do("go on with it in the agent itself")
	}
	if a.Cwd != "" && !sameDir(a.Cwd, c.Cwd) {
		return sessions.Errorf(sessions.CodeInvalidParams, "cwd %.200q was given, conversation %s is of %.200q", a.Cwd, a.NativeID, c.Cwd).
			Do("leave cwd out, or give the conversation's own")
	}
	if home := lookup(where.Env)("HOME"); a.Cwd == "" && home != "" && holds(c.Cwd, home) {
		return sessions.Errorf(sessions.CodeInvalidParams, "conversation %s is of %.200q by its own record, which is your home or holds it", a.NativeID, c.Cwd).
			Do("give cwd as well to say that an agent shall work on all of it")
	}
	if _, err := h.workspaceOf(who, c.Cwd, nil); err != nil {
		return sessions.AsError(err).Do("the directory is that of the conversation's own record: bring it back, or go on with it in the agent itself")
	}
	if make.Cwd = c.Cwd; make.Title == "" {
		make.Title = c.Title
	}
	return nil
}

// holds tells whether a directory is another one or above it.
func holds(dir, other string) bool {
	x, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	y, err := filepath.EvalSymlinks(other)
	return err == nil && inside(y, x)
}

func sameDir(a, b string) bool {
	x, err := filepath.EvalSymlinks(a)
	if err != nil {
		return false
	}
	y, err := filepath.EvalSymlinks(b)
	return err == nil && x == y
}

// holders finds who writes conversations. It looks at the machine once.
type holders struct {
	looked bool
	open   sandbox.OpenFiles
}

func (h *holders) of(files []string) *sessions.Holder {
	if len(files) == 0 {
		return nil
	}
	if !h.looked {
		h.open, h.looked = sandbox.LookAtFiles(), true
	}
	for _, f := range files {
		if pid, program := h.open.Writer(f); pid != 0 {
			return &sessions.Holder{PID: pid, Program: program}
		}
	}
	return nil
}
