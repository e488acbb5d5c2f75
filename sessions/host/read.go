package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// Read gives a page of a session's events.
func (h *Host) Read(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (sessions.ReadResult, error) {
	page, err := h.page(ctx, who, a)
	if err != nil {
		return sessions.ReadResult{}, err
	}
	res := sessions.ReadResult{Events: make([]sessions.Event, len(page.Events)), Cursor: sessions.EncodeCursor(a.SessionID, page.Last), HasMore: page.More, Gap: page.Gap}
	for i := range page.Events {
		if res.Events[i], err = page.Events[i].Event(); err != nil {
			return sessions.ReadResult{}, err
		}
	}
	return res, nil
}

// ReadJSON gives the JSON of what Read gives. The events that are kept as JSON are not decoded for it.
func (h *Host) ReadJSON(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) ([]byte, error) {
	page, err := h.page(ctx, who, a)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(sessions.ReadResult{Cursor: sessions.EncodeCursor(a.SessionID, page.Last), HasMore: page.More, Gap: page.Gap})
	if err != nil {
		return nil, err
	}
	const before = `{"events":`
	size := len(rest) + 2
	for i := range page.Events {
		size += page.Events[i].Size()
	}
	b := append(make([]byte, 0, size), before+"["...)
	for i := range page.Events {
		if i > 0 {
			b = append(b, ',')
		}
		b = page.Events[i].AppendJSON(b)
	}
	return append(append(b, ']'), rest[len(before+"null"):]...), nil
}

// stored is a page of events that need not be decoded.
type stored = journal.PageOf[journal.Stored]

// page reads what a call asks for, as much of it as fits.
func (h *Host) page(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (page stored, err error) {
	if err := named(who); err != nil {
		return stored{}, err
	}
	if a.Limit == 0 {
		a.Limit = sessions.DefaultReadLimit
	}
	if a.Limit < 0 || a.Limit > sessions.MaxReadLimit {
		return stored{}, sessions.Errorf(sessions.CodeInvalidParams, "limit is %d", a.Limit).Do("use 1 to %d", sessions.MaxReadLimit)
	}
	max, err := budget(a.MaxChars)
	if err != nil {
		return stored{}, err
	}
	for _, k := range a.Kinds {
		if !slices.Contains(sessions.EventKinds(), k) {
			return stored{}, sessions.Errorf(sessions.CodeInvalidParams, "there is no event kind %.80q", k).
				Do("use kinds of the list in the details, or leave kinds out for all").With("kinds", sessions.EventKinds())
		}
	}
	if err := sessions.CheckUUID("session_id", a.SessionID); err != nil {
		return stored{}, err
	}
	after, err := sessions.DecodeCursor(a.SessionID, a.After)
	if err != nil {
		return stored{}, err
	}
	if err := h.look(ctx, func(tx *journal.Tx) error {
		s, err := tx.GetSession(who.Principal, a.SessionID)
		if err != nil {
			return err
		}
		if err := guard(s, a.Guard); err != nil {
			return err
		}
		page, err = readPage(tx, a, after, max)
		return err
	}); err != nil {
		return stored{}, err
	}
	n, err := withinBudget(page.Events, max)
	if err != nil {
		return stored{}, err
	}
	if n < len(page.Events) {
		page.Events, page.More, page.Last = page.Events[:n], true, page.Events[n-1].Seq
	}
	return page, nil
}

// pageStep is how many events are read at once. The texts of a page may fill its budget long before its limit, and what
// is read beyond is read in vain.
const pageStep = 32

// readPage reads as much of a page as its budget of characters may have room for, and one step at most beyond.
func readPage(tx *journal.Tx, a sessions.ReadArgs, after int64, max int) (page stored, err error) {
	used, size := 0, 0
	for {
		next, err := tx.ReadStored(a.SessionID, after, min(pageStep, a.Limit-len(page.Events)), a.Kinds, sessions.MaxReadBytes-size)
		if err == nil {
			err = withPrompts(tx, a.SessionID, next.Events)
		}
		switch {
		case err != nil:
			return page, err
		case page.Events == nil:
			page = next
		case next.Gap != nil: // it is the next page's
			page.More = true
			return page, nil
		default:
			page.Events, page.Last, page.More = append(page.Events, next.Events...), next.Last, next.More
		}
		for i := range next.Events {
			used += next.Events[i].Characters
			size += next.Events[i].Size()
		}
		after = page.Last
		if !page.More || len(next.Events) == 0 || len(page.Events) >= a.Limit || used > max || size >= sessions.MaxReadBytes {
			return page, nil
		}
	}
}

// withPrompts gives the event of each submitted command its prompt, which is kept with the command alone.
func withPrompts(tx *journal.Tx, session string, evs []journal.Stored) error {
	for i := range evs {
		if evs[i].Kind != sessions.EventCommandSubmitted {
			continue
		}
		cmd, found, err := tx.FindCommand(session, evs[i].Command)
		if err == nil && found {
			err = change(&evs[i], func(e *sessions.Event) { e.Text = cmd.Text })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change changes an event that was read.
func change(s *journal.Stored, how func(*sessions.Event)) error {
	e, err := s.Event()
	if err != nil {
		return err
	}
	how(&e)
	*s, err = journal.NewStored(e)
	return err
}

// readAgain is how a caller gets what did not fit: the cursor has passed the event.
const readAgain = "read again from the cursor before with a larger max_chars"

// withinBudget cuts the texts of a page to the budget, in characters, and tells how many of its events fit. The first
// event always does, cut if it must be.
func withinBudget(evs []journal.Stored, max int) (int, error) {
	used := 0
	for i := range evs {
		size := evs[i].Characters
		if used+size <= max {
			used += size
			continue
		}
		if i > 0 {
			return i, nil
		}
		if err := change(&evs[i], func(e *sessions.Event) { cutTexts(e, max) }); err != nil {
			return 0, err
		}
		used = max
	}
	return len(evs), nil
}

// cutTexts cuts the texts of an event to a budget.
func cutTexts(e *sessions.Event, max int) {
	used := min(utf8.RuneCountInString(e.Text), max)
	e.Text = cut(e.Text, max, readAgain)
	e.Raw = nil
	if e.Tool != nil {
		e.Tool.Output, e.Tool.Detail = cut(e.Tool.Output, max-used, readAgain), nil
	}
}

// maxList bounds a page of sessions.
const maxList = 200

// List gives the principal's sessions, newest first.
func (h *Host) List(ctx context.Context, who sessions.Caller, a sessions.ListArgs) (sessions.ListResult, error) {
	if err := named(who); err != nil {
		return sessions.ListResult{}, err
	}
	return list(ctx, h.look, who.Principal, a)
}

// list gives the sessions of a principal, or with none those of all.
func list(ctx context.Context, look func(context.Context, func(*journal.Tx) error) error, principal string, a sessions.ListArgs) (sessions.ListResult, error) {
	if a.Limit == 0 {
		a.Limit = 50
	}
	if a.Limit < 0 || a.Limit > maxList {
		return sessions.ListResult{}, sessions.Errorf(sessions.CodeInvalidParams, "limit is %d", a.Limit).Do("use 1 to %d", maxList)
	}
	if err := oneOf("state", string(a.State), "reserved", "starting", "idle", "running", "closing", "closed", "failed"); err != nil {
		return sessions.ListResult{}, err
	}
	var after int64
	if a.After != "" {
		b, err := base64.RawURLEncoding.DecodeString(a.After)
		if err == nil && len(b) > 2 && string(b[:2]) == "L:" {
			after, err = strconv.ParseInt(string(b[2:]), 10, 64)
		}
		if err != nil || after <= 0 {
			return sessions.ListResult{}, sessions.Errorf(sessions.CodeCursorInvalid, "after %.80q is no cursor of session_list", a.After).Do("use the cursor of an earlier page, or leave it out")
		}
	}
	if real, err := filepath.EvalSymlinks(a.Cwd); err == nil && filepath.IsAbs(a.Cwd) {
		a.Cwd = real // sessions have theirs so
	}
	res := sessions.ListResult{Sessions: []sessions.Session{}}
	err := look(ctx, func(tx *journal.Tx) error {
		list, more, err := tx.ListSessions(journal.SessionFilter{Principal: principal, Cwd: a.Cwd, Runner: a.Runner, State: a.State, All: a.All, Newest: true}, after, a.Limit)
		if err != nil {
			return err
		}
		for _, s := range list {
			v, err := viewOf(tx, s)
			if err != nil { // one that is damaged does not hide the others
				rest, ok := tx.Impaired(s, err)
				if !ok {
					return err
				}
				rest.Selections.Evidence.Raw = nil
				v = rest
			}
			res.Sessions = append(res.Sessions, v)
		}
		if more {
			res.Cursor = base64.RawURLEncoding.EncodeToString([]byte("L:" + strconv.FormatInt(list[len(list)-1].N, 10)))
		}
		return nil
	})
	return res, err
}
