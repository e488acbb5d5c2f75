// Package own decodes JSON that Baton wrote itself: journal rows, frames of bridges, answers of the host. It takes a third
// of encoding/json's time, and what streams through Baton is decoded four times on its way. It encodes what tools answer.
//
// It is encoding/json/v2, by the mirror that serves Go versions before 1.27, with what an agent's own JSON inside ours may
// hold: the same name twice, and text that is no UTF-8; and with durations as encoding/json writes them. For what others
// write encoding/json stays, or takes over where this fails: it goes on behind a member of the wrong type.
package own

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

var tolerant = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.FormatDurationAsNano(true))

// Unmarshal decodes one value into what v points to.
func Unmarshal(b []byte, v any) error { return json.Unmarshal(b, v, tolerant) }

// UnmarshalStrict is Unmarshal, and refuses members that v has no place for.
func UnmarshalStrict(b []byte, v any) error {
	return json.Unmarshal(b, v, tolerant, json.RejectUnknownMembers(true))
}

// full has members left out as encoding/json does, and maps in the order of their names.
var full = json.JoinOptions(tolerant, jsonv1.OmitEmptyWithLegacySemantics(true), json.Deterministic(true))

// Marshal encodes a value. Lists and maps that are nil are empty ones, not null.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, full) }
