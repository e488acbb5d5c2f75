package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// foreignPage is how many threads one call asks for.
const foreignPage = 100

// sourceKinds are the makers of threads that a person can mean: without them thread/list shows those of Codex's own
// terminal and of editors alone (0.171.0). Threads of sub-agents are none of them.
var sourceKinds = []string{"cli", "vscode", "exec", "appServer", "unknown"}

type threadListParams struct {
	Cursor    string   `json:"cursor,omitempty"`
	Limit     int      `json:"limit"`
	Cwd       string   `json:"cwd,omitempty"`
	Sources   []string `json:"sourceKinds"`
	Providers []string `json:"modelProviders"` // empty: all of them; without it, the configured one
	SortKey   string   `json:"sortKey"`
}

// wireThread is what we read of a thread on record.
type wireThread struct {
	ID      string          `json:"id"`
	Preview string          `json:"preview"`
	Name    string          `json:"name"`
	Model   string          `json:"model"`
	Cwd     string          `json:"cwd"`
	Path    string          `json:"path"`
	Source  json.RawMessage `json:"source"` // a name, or {name: ...} for sub-agents
	Parent  string          `json:"parentThreadId"`
	Created int64           `json:"createdAt"` // seconds
	Updated int64           `json:"updatedAt"`
}

// Foreign asks a Codex process about the threads of its CODEX_HOME, whoever made them. It takes none of them: a thread
// that another process writes can be read. It owns the link and has closed it when it returns.
func Foreign(ctx context.Context, conn *wire.Conn, ask sessions.ForeignAsk, o Options) (said sessions.ForeignSaid, err error) {
	a := New(conn, discard{}, o)
	defer func() {
		conn.Close()
		<-a.Done()
	}()
	home, err := a.greet(ctx)
	if err != nil {
		return said, openError(err)
	}
	if ask.NativeID == "" {
		said.Conversations, err = a.threads(ctx, home, ask)
	} else {
		said, err = a.foreignThread(ctx, home, ask)
	}
	if err != nil {
		return said, openError(err)
	}
	return said, nil
}

// greet is the handshake of who wants to read, and no models.
func (a *Agent) greet(ctx context.Context) (home string, err error) {
	var hello initializeResult
	if err := a.ask(ctx, "initialize", a.initialize(), &hello); err != nil {
		return "", err
	}
	if _, err := parseVersion(hello.UserAgent); err != nil {
		return "", err
	}
	var sent error
	if err := a.do(ctx, func() { sent = a.conn.Notify(ctx, "initialized", nil) }); err != nil {
		return "", err
	}
	if sent != nil {
		return "", a.writeFailed(ctx, sent)
	}
	return hello.CodexHome, nil
}

func (a *Agent) threads(ctx context.Context, home string, ask sessions.ForeignAsk) (all []sessions.Conversation, err error) {
	params := threadListParams{Limit: foreignPage, Cwd: ask.Cwd, Sources: sourceKinds, Providers: []string{}, SortKey: "updated_at"}
	for range maxRecordPages {
		var page struct {
			Data       []wireThread `json:"data"`
			NextCursor string       `json:"nextCursor"`
		}
		if err := a.ask(ctx, "thread/list", params, &page); err != nil {
			return nil, err
		}
		for i := range page.Data {
			t := &page.Data[i]
			if t.Parent != "" || ask.Cwd != "" && t.Cwd != ask.Cwd { // versions that do not know the filter ignore it
				continue
			}
			if all = append(all, t.conversation(home)); ask.Limit > 0 && len(all) >= ask.Limit {
				return all, nil
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return all, nil
		}
	}
	return nil, errEndless("thread/list")
}

// foreignThread is one thread, with what happened in it where that is asked.
func (a *Agent) foreignThread(ctx context.Context, home string, ask sessions.ForeignAsk) (said sessions.ForeignSaid, err error) {
	var r struct {
		Thread wireThread `json:"thread"`
	}
	switch err := a.ask(ctx, "thread/read", threadID{ask.NativeID}, &r); {
	case noThread(err):
		return said, sessions.Errorf(sessions.CodeNotFound, "Codex has no thread %.80q", ask.NativeID).
			Do("baton list --foreign shows what there is; check that CODEX_HOME is the one it was made in")
	case err != nil:
		return said, err
	}
	said.Conversations = []sessions.Conversation{r.Thread.conversation(home)}
	if !ask.Events {
		return said, nil
	}
	if err := a.do(ctx, func() { a.root = r.Thread.ID }); err != nil {
		return said, err
	}
	said.Events, err = a.conversationPast(ctx)
	return said, err
}

// conversation is the thread as others see it. Who writes it holds a lock of its own (0.171.0), and has its record open.
func (t *wireThread) conversation(home string) sessions.Conversation {
	c := sessions.Conversation{NativeID: t.ID, Cwd: t.Cwd, Title: cmp.Or(t.Name, t.Preview), Model: t.Model, CreatedAt: moment(t.Created), UpdatedAt: moment(t.Updated)}
	if json.Unmarshal(t.Source, &c.Source) != nil {
		c.Source = ""
	}
	if home != "" {
		c.Files = append(c.Files, filepath.Join(home, "thread-writer-locks", filepath.Base(t.ID)+".lock"))
	}
	if t.Path != "" {
		c.Files = append(c.Files, t.Path)
	}
	return c
}

func moment(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// conversationPast is what happened in our thread, by its record.
func (a *Agent) conversationPast(ctx context.Context) ([]sessions.Event, error) {
	var h sessions.History
	params := listParams{ThreadID: a.thread(ctx), SortDirection: "asc"}
	for range maxRecordPages {
		var page struct {
			Data []struct {
				TurnID  string          `json:"turnId"`
				Item    json.RawMessage `json:"item"`
				Started int64           `json:"startedAtMs"`
			} `json:"data"`
			NextCursor string `json:"nextCursor"`
		}
		err := a.ask(ctx, "thread/items/list", params, &page)
		if unknownMethod(err) || notListed(err) { // before 0.144, and of a thread that such a version wrote
			return a.pastByTurn(ctx)
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Data {
			pastItem(&h, entry.TurnID, entry.Item, entry.Started, a.o.Redact)
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return h.Events(), nil
		}
	}
	return nil, errEndless("thread/items/list")
}

func (a *Agent) pastByTurn(ctx context.Context) ([]sessions.Event, error) {
	var all []recordedTurn
	if err := a.turns(ctx, "full", maxRecordPages, func(t recordedTurn) bool {
		all = append(all, t)
		return true
	}); err != nil {
		return nil, err
	}
	var h sessions.History
	for _, t := range slices.Backward(all) {
		for _, raw := range t.Items {
			pastItem(&h, t.ID, raw, 0, a.o.Redact)
		}
	}
	return h.Events(), nil
}

// pastItem adds an item of the record, as the event that its end would have been.
func pastItem(h *sessions.History, turn string, raw json.RawMessage, at int64, hide sessions.Redactor) {
	var it wireItem
	if decode(raw, &it) != nil {
		return
	}
	e := sessions.Event{Turn: turn, Item: it.ID}
	if at > 0 {
		e.At = time.UnixMilli(at).UTC()
	}
	switch it.Type {
	case "userMessage":
		e.Kind, e.Text = sessions.EventCommandSubmitted, it.prompt()
	case "agentMessage":
		e.Kind, e.Text, e.Final = sessions.EventText, it.Text, true
	case "plan":
		e.Kind, e.Text, e.Final = sessions.EventPlan, it.Text, true
	case "exitedReviewMode":
		e.Kind, e.Text, e.Final = sessions.EventText, it.Review, true
	case "reasoning":
		if e.Kind, e.Text = sessions.EventReasoning, it.reasoning(); e.Text == "" {
			return
		}
	case "hookPrompt":
		return
	default:
		e.Kind, e.Tool = sessions.EventToolCompleted, it.tool(raw, "completed", hide)
	}
	h.Add(e)
}

// prompt is what a user's message says; what is no text is named.
func (it *wireItem) prompt() string {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Path string `json:"path"`
	}
	_ = decode(it.Content, &parts) // another shape says nothing
	var out []string
	for _, p := range parts {
		switch {
		case p.Text != "":
			out = append(out, p.Text)
		case p.Type != "text":
			out = append(out, strings.TrimSpace("["+p.Type+" "+p.Path)+"]")
		}
	}
	return strings.Join(out, "\n")
}
