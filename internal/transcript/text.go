package transcript

import (
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// maxOpen bounds how much of one item is kept to compare its pieces with its whole.
const maxOpen = 4 << 20

// texts are the items of which pieces were told and the end was not.
type texts map[string]*item

type item struct {
	said strings.Builder
	more bool // said holds only the beginning
}

// news is what an event of text adds to what was told.
type news struct {
	text    string
	begins  bool // nothing was told of this item
	differs bool // text is the whole, and not what its pieces were
	ends    bool
}

func (t texts) take(e *sessions.Event) (n news) {
	key := string(e.Kind) + "\x00" + e.Agent + "\x00" + e.Command + "\x00" + e.Item
	it := t[key]
	n.begins = it == nil
	if !e.Final {
		if it == nil {
			it = &item{}
			t[key] = it
		}
		if it.said.Len()+len(e.Text) > maxOpen {
			it.more = true
		} else if !it.more {
			it.said.WriteString(e.Text)
		}
		n.text = e.Text
		if n.ends = e.Abandoned; n.ends {
			delete(t, key)
		}
		return n
	}
	delete(t, key)
	n.ends = true
	if it == nil {
		n.text = e.Text
		return n
	}
	rest, ok := strings.CutPrefix(e.Text, it.said.String())
	switch {
	case it.more && ok: // told as far as it was compared, and in pieces beyond
	case ok:
		n.text = rest
	case strings.HasSuffix(e.Text, it.said.String()): // its first pieces lie before what is read
	default:
		n.text, n.differs = e.Text, true
	}
	return n
}
