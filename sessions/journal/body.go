package journal

import (
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/batonmcp/baton/sessions"
)

// eventBody is the JSON of an event without what other columns hold.
func eventBody(e sessions.Event) (json.RawMessage, error) {
	if e.Tool == nil && e.Request == nil && e.Settled == nil && e.Selection == nil && e.Usage == nil && e.Gap == nil && e.Data == nil &&
		e.Spent == nil && e.Raw == nil {
		if b, ok := plainBody(&e); ok {
			return b, nil
		}
	}
	e.Session, e.Seq, e.Generation, e.Kind, e.Command, e.At = "", 0, "", "", "", time.Time{}
	return encode(e)
}

// plainBody writes the body of an event that holds nothing but words, which most are, by hand: the library takes several
// times as long. ok is false for text that is no UTF-8, which the library mends.
func plainBody(e *sessions.Event) (b []byte, ok bool) {
	b = append(make([]byte, 0, 64+len(e.Turn)+len(e.Item)+len(e.Text)+len(e.Text)/8), `{"kind":"",`...)
	for _, f := range [...]struct{ name, value string }{
		{`"turn":`, e.Turn}, {`"item":`, e.Item}, {`"agent":`, e.Agent}, {`"lease":`, e.Lease}, {`"text":`, e.Text}, {`"code":`, string(e.Code)},
	} {
		if f.value == "" {
			continue
		}
		var err error
		if b, err = jsontext.AppendQuote(append(b, f.name...), f.value); err != nil {
			return nil, false
		}
		b = append(b, ',')
	}
	for _, f := range [...]struct {
		name string
		is   bool
	}{{`"final":true,`, e.Final}, {`"abandoned":true,`, e.Abandoned}, {`"late":true,`, e.Late}, {`"replay":true,`, e.Replay}, {`"redacted":true,`, e.Redacted}} {
		if f.is {
			b = append(b, f.name...)
		}
	}
	b[len(b)-1] = '}'
	return b, true
}
