package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// maxItem is how long the text of one item may get before it is ended and a new one begun, so that a text without end
// does not need memory without end. A single chunk stays whole.
const maxItem = 16 << 20

// feed turns the updates of one conversation into events: the session's own, or a sub-agent's. There is one per turn
// and conversation, and one for what comes when no turn runs.
type feed struct {
	emit    func(sessions.Event)
	agent   string // the sub-agent's session id; "": the session's own
	command string
	late    int  // from 1, for what arrives outside its turn; 0: in its turn
	lost    bool // the link is gone: open texts are not known to be whole

	turn    *turn
	text    *item
	thought *item
	broken  map[sessions.EventKind]string // the last item of a kind that something else ended
	items   int
	tools   map[string]*tool
	order   []string        // of tools
	ids     map[string]bool // of messages
	show    func(terminal string) (text string, exit *int)
	hide    sessions.Redactor
}

// item is one running text.
type item struct {
	id      string
	message string // the agent's id, where it has one
	whole   strings.Builder
}

// feedOf is the feed of a conversation in the running turn.
func (a *Agent) feedOf(agent string) *feed {
	t := a.turn
	f := t.feeds[agent]
	if f == nil {
		f = &feed{emit: a.emit, show: a.shown, hide: a.o.Redact, agent: agent, command: t.command, turn: t, tools: map[string]*tool{}, ids: map[string]bool{}}
		t.feeds[agent] = f
	}
	return f
}

// lateFeed is the feed for what arrives outside its turn. Its events name the command they came after.
func (a *Agent) lateFeed(agent string) *feed {
	f := a.late[agent]
	if f == nil {
		a.lates++
		f = &feed{emit: a.emit, hide: a.o.Redact, agent: agent, command: a.last, late: a.lates, tools: map[string]*tool{}, ids: map[string]bool{}}
		a.late[agent] = f
	}
	return f
}

// endLate closes the late texts before something new begins.
func (a *Agent) endLate() {
	for _, id := range slices.Sorted(maps.Keys(a.late)) {
		a.late[id].finish("unfinished")
		a.past.keep(a.late[id])
	}
	clear(a.late)
}

func (t *turn) sorted() []*feed {
	feeds := make([]*feed, 0, len(t.feeds))
	for _, id := range slices.Sorted(maps.Keys(t.feeds)) {
		feeds = append(feeds, t.feeds[id])
	}
	return feeds
}

// send stamps what all events of the feed have in common.
func (f *feed) send(e sessions.Event) {
	e.Command, e.Agent, e.Late = f.command, f.agent, f.late > 0
	f.emit(e)
}

// chunk is one piece of a message or of a thought.
func (f *feed) chunk(kind sessions.EventKind, message string, content block, raw json.RawMessage) {
	if message != "" {
		f.ids[message] = true
	}
	mine, other := &f.text, &f.thought
	if kind == sessions.EventReasoning {
		mine, other = other, mine
	}
	f.cut(other)
	if i := *mine; i != nil && (message != "" && message != i.message || i.whole.Len() >= maxItem) {
		f.cut(mine)
	}
	text := content.text()
	if *mine == nil {
		if text == "" && content.Type == "text" { // Claude opens messages with an empty chunk
			return
		}
		f.items++
		*mine = &item{id: f.itemID(message), message: message}
	}
	i := *mine
	i.whole.WriteString(text)
	e := sessions.Event{Kind: kind, Item: i.id, Text: text, Follows: f.broken[kind]}
	if text == "" {
		if content.Type == "text" {
			return
		}
		e.Data, e.Raw = map[string]any{"content": content.Type}, kept(raw)
	}
	f.send(e)
}

// itemID makes an id that no other text of the session has. The agent's own id comes back after a tool call where the
// message goes on, so it does not do alone.
func (f *feed) itemID(message string) string {
	id := f.command + "/" + strconv.Itoa(f.items)
	if f.late > 0 {
		id = fmt.Sprintf("%s/late-%d-%d", f.command, f.late, f.items)
	}
	if message != "" {
		id += "-" + told(message, 64, f.hide)
	}
	return id
}

// cut ends an item because something else comes, after which its text may go on.
func (f *feed) cut(of **item) { f.over(of, true) }

// end ends an item.
func (f *feed) end(of **item) { f.over(of, false) }

// over ends an item. The whole text of a message is repeated, so that nobody has to put it together again.
func (f *feed) over(of **item, cut bool) {
	i := *of
	*of = nil
	if i != nil && cut {
		kind := sessions.EventText
		if of == &f.thought {
			kind = sessions.EventReasoning
		}
		if f.broken == nil {
			f.broken = map[sessions.EventKind]string{}
		}
		f.broken[kind] = i.id
	}
	if i == nil || of == &f.thought {
		return
	}
	whole := i.whole.String()
	if whole == "" {
		return
	}
	if f.turn != nil && f.agent == "" {
		f.turn.said = whole
	}
	f.send(sessions.Event{Kind: sessions.EventText, Item: i.id, Text: whole, Final: true, Cut: cut, Abandoned: f.lost})
}

// finish ends everything that is open, the tools with a status of our own.
func (f *feed) finish(open string) {
	f.end(&f.thought)
	f.end(&f.text)
	for _, id := range f.order {
		f.tools[id].abandon(f, open)
	}
}

// plan is the agent's list of what it wants to do, always whole.
func (f *feed) plan(raw json.RawMessage) {
	var u struct {
		Entries []planEntry `json:"entries"`
	}
	_ = decode(raw, &u)
	f.send(sessions.Event{Kind: sessions.EventPlan, Item: "plan", Text: planText(u.Entries), Final: true,
		Data: map[string]any{"entries": u.Entries}})
}

type planEntry struct {
	ID       string `json:"id,omitempty"`
	Content  string `json:"content"`
	Status   string `json:"status,omitempty"`
	Priority string `json:"priority,omitempty"`
}

// planText is a plan as a Markdown list.
func planText(entries []planEntry) string {
	var b strings.Builder
	for _, e := range entries {
		mark := map[string]string{"completed": "x", "in_progress": "~", "cancelled": "-"}[e.Status]
		if mark == "" {
			mark = " "
		}
		fmt.Fprintf(&b, "- [%s] %s\n", mark, e.Content)
	}
	return b.String()
}

// usage is the fill of the context window and what the session has cost so far.
func (f *feed) usage(raw json.RawMessage) {
	var u struct {
		Used int64 `json:"used"`
		Size int64 `json:"size"`
		Cost *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
	}
	_ = decode(raw, &u)
	usage := sessions.Usage{Total: u.Used, Window: u.Size}
	e := sessions.Event{Kind: sessions.EventUsage, Usage: &usage}
	if u.Cost != nil && u.Cost.Currency == "USD" {
		usage.Cost = u.Cost.Amount
	} else if u.Cost != nil {
		e.Data = map[string]any{"cost": u.Cost.Amount, "currency": u.Cost.Currency}
	}
	f.send(e)
}

// told is the beginning of a text that is told, which is redacted before it is cut.
func told(s string, n int, hide sessions.Redactor) string {
	if len(s) > n {
		s = hide.Redact(s)
	}
	return clip(s, n)
}

// clip cuts a text to a length without cutting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
