package appserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// The thread's record tells what became of a command: turn/start writes its clientUserMessageId into the turn as the
// clientId of the user's message. Codex does not look at it otherwise, so that the same id sent twice runs twice.
//
// A record may be believed only while we hold the thread. Read beside a living writer, a running turn shows as
// interrupted.

type listParams struct {
	ThreadID      string `json:"threadId"`
	TurnID        string `json:"turnId,omitempty"`
	Cursor        string `json:"cursor,omitempty"`
	SortDirection string `json:"sortDirection"`
	ItemsView     string `json:"itemsView,omitempty"`
}

// maxRecordPages bounds a record whose cursor never ends.
const maxRecordPages = 100_000

type userMessage struct {
	Type     string `json:"type"`
	ClientID string `json:"clientId"`
}

// messages calls see with the client id of every user message and its turn, newest first, until see returns false. The id
// is "" for what somebody else sent, and for everything in the records of 0.125, which keeps none. A turn id narrows it to
// that turn.
func (a *Agent) messages(ctx context.Context, turnID string, see func(clientID, turn string) bool) error {
	params := listParams{ThreadID: a.thread(ctx), TurnID: turnID, SortDirection: "desc"}
	for range maxRecordPages {
		var page struct {
			Data []struct {
				TurnID string          `json:"turnId"`
				Item   json.RawMessage `json:"item"`
			} `json:"data"`
			NextCursor string `json:"nextCursor"`
		}
		err := a.ask(ctx, "thread/items/list", params, &page)
		if unknownMethod(err) { // before 0.144
			return a.messagesByTurn(ctx, turnID, see)
		}
		if err != nil {
			return err
		}
		for _, entry := range page.Data {
			var m userMessage
			if decode(entry.Item, &m) == nil && m.Type == "userMessage" && !see(m.ClientID, entry.TurnID) {
				return nil
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return nil
		}
	}
	return errEndless("thread/items/list")
}

func (a *Agent) messagesByTurn(ctx context.Context, turnID string, see func(clientID, turn string) bool) error {
	return a.turns(ctx, "full", maxRecordPages, func(t recordedTurn) bool {
		if turnID != "" && t.ID != turnID {
			return true
		}
		for _, raw := range t.Items {
			var m userMessage
			if decode(raw, &m) == nil && m.Type == "userMessage" && !see(m.ClientID, t.ID) {
				return false
			}
		}
		return true
	})
}

// turns calls see with every turn, newest first, until see returns false.
func (a *Agent) turns(ctx context.Context, view string, pages int, see func(recordedTurn) bool) error {
	params := listParams{ThreadID: a.thread(ctx), SortDirection: "desc", ItemsView: view}
	for range pages {
		var page struct {
			Data       []recordedTurn `json:"data"`
			NextCursor string         `json:"nextCursor"`
		}
		if err := a.ask(ctx, "thread/turns/list", params, &page); err != nil {
			return err
		}
		for _, t := range page.Data {
			if !see(t) {
				return nil
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return nil
		}
	}
	if pages < maxRecordPages {
		return nil
	}
	return errEndless("thread/turns/list")
}

func errEndless(method string) error {
	return sessions.Errorf(sessions.CodeAgentProtocol, "%s of Codex does not end", method).Do("update Codex")
}

// thread is our thread's id, for code outside the loop.
func (a *Agent) thread(ctx context.Context) (id string) {
	_ = a.do(ctx, func() { id = a.root }) // without a loop the next call fails too
	return id
}

// turnHolds tells whether a turn holds the message of a command.
func (a *Agent) turnHolds(ctx context.Context, turnID, command string) (found bool, err error) {
	err = a.messages(ctx, turnID, func(clientID, turn string) bool {
		found = clientID == command && turn == turnID
		return !found
	})
	return found, err
}

// turnRecord is the record of a recent turn, nil when there is none.
func (a *Agent) turnRecord(ctx context.Context, id string) (record *wireTurn, err error) {
	const recent = 5 // pages, newest first: the turn that was just running
	err = a.turns(ctx, "notLoaded", recent, func(t recordedTurn) bool {
		if t.ID == id {
			record = &t.wireTurn
		}
		return record == nil
	})
	return record, err
}

// settleUnknown settles commands whose outcome was lost with an older process, by the record of the thread that we have
// just resumed. What is neither there as ended nor provably absent stays unknown. Where the record keeps no ids of messages
// at all, as that of 0.125, the turns count that Codex named when it took the commands: they keep their ids.
func (a *Agent) settleUnknown(ctx context.Context, commands []string, turns map[string]string) ([]sessions.Settlement, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	missing := make(map[string]bool, len(commands))
	for _, c := range commands {
		missing[c] = true
	}
	turnOf := map[string]string{}
	wanted := map[string]bool{}
	named, nameless := false, false // messages with an id, and ones without that are younger than all of those
	err := a.messages(ctx, "", func(clientID, turn string) bool {
		if named = named || clientID != ""; !named {
			nameless = true
		}
		if missing[clientID] {
			delete(missing, clientID)
			turnOf[clientID] = turn
			wanted[turn] = true
		}
		return len(missing) > 0
	})
	if nameless && !named {
		for c := range missing {
			if turn := turns[c]; turn != "" {
				delete(missing, c)
				turnOf[c] = turn
				wanted[turn] = true
			}
		}
	}
	if err == nil && nameless && len(missing) > 0 {
		// Any of those may be the command: that its id is nowhere proves nothing.
		commands = slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return missing[c] })
		err = a.do(ctx, func() {
			a.warn(sessions.Event{Code: sessions.CodeOutcomeUnknown}, "the thread's record does not say which messages are ours, so the commands of unknown outcome that it does not name stay unknown")
		})
	}
	if err == nil && len(wanted) > 0 {
		records := map[string]wireTurn{}
		err = a.turns(ctx, "notLoaded", maxRecordPages, func(t recordedTurn) bool {
			if wanted[t.ID] {
				records[t.ID] = t.wireTurn
				delete(wanted, t.ID)
			}
			return len(wanted) > 0
		})
		if err == nil {
			return settlements(commands, turnOf, records), nil
		}
	}
	if refused(err) != nil {
		return nil, a.do(ctx, func() {
			a.warn(sessions.Event{Code: sessions.CodeOutcomeUnknown}, "the thread's record cannot be read, so the commands of unknown outcome stay unknown: %s", err)
		})
	}
	if err != nil {
		return nil, err
	}
	return settlements(commands, turnOf, nil), nil
}

func settlements(commands []string, turnOf map[string]string, records map[string]wireTurn) []sessions.Settlement {
	var out []sessions.Settlement
	for _, c := range commands {
		turn, present := turnOf[c]
		if !present {
			out = append(out, undelivered([]string{c})...)
			continue
		}
		r, ok := records[turn]
		if !ok || r.Status == "inProgress" || r.Status == "" {
			continue // it ran, and how it ended is not told
		}
		s := settlement(r, false)
		s.Command, s.By = c, byRecord
		if s.State == sessions.CommandInterrupted {
			s.Reason = "the thread's record has the turn as interrupted: it was stopped, or its process ended before it did"
		}
		out = append(out, s)
	}
	return out
}

// undelivered: the user's message of a command is the first thing that a turn records.
func undelivered(commands []string) []sessions.Settlement {
	var out []sessions.Settlement
	for _, c := range commands {
		out = append(out, sessions.Settlement{Command: c, State: sessions.CommandFailed, Outcome: "not_delivered", By: byRecord,
			Reason: "the thread's record has no message of this command, so Codex never began it"})
	}
	return out
}
