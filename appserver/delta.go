package appserver

import (
	"encoding/json"

	"github.com/batonmcp/baton/internal/wire"
)

// deltaNote is every notification that adds to an item.
type deltaNote struct {
	ThreadID     string       `json:"threadId"`
	TurnID       string       `json:"turnId"`
	ItemID       string       `json:"itemId"`
	Delta        string       `json:"delta"`
	SummaryIndex int          `json:"summaryIndex"`
	Stdin        string       `json:"stdin"`   // terminalInteraction
	Message      string       `json:"message"` // mcpToolCall/progress
	Changes      []fileChange `json:"changes"` // patchUpdated
}

// deltaIDs are those of the last delta, which the next one mostly shares.
type deltaIDs struct{ thread, turn, item string }

// decodeDelta reads what comes by the thousand. A delta of plain strings is taken apart by hand, in a tenth of the time that
// the library needs; any other is the library's.
func (a *Agent) decodeDelta(raw json.RawMessage) (n deltaNote, err error) {
	plain := len(raw) > 0 && raw[0] == '{'
	wire.Each(raw, func(name, value []byte) {
		var into, last *string
		switch string(name) {
		case "threadId":
			into, last = &n.ThreadID, &a.deltas.thread
		case "turnId":
			into, last = &n.TurnID, &a.deltas.turn
		case "itemId":
			into, last = &n.ItemID, &a.deltas.item
		case "delta":
			into = &n.Delta
		case "stdin":
			into = &n.Stdin
		case "message":
			into = &n.Message
		case "summaryIndex", "changes":
			plain = false
			return
		default:
			return
		}
		if last != nil && value[0] == '"' && string(value[1:len(value)-1]) == *last {
			*into = *last
			return
		}
		text, ok := wire.Text(value)
		if !ok {
			plain = false
			return
		}
		if *into = text; last != nil {
			*last = text
		}
	})
	if plain {
		return n, nil
	}
	n = deltaNote{}
	return n, decode(raw, &n)
}
