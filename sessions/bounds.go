package sessions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Bounds of what an agent names, in bytes: real ids have some dozens, and titles a line. What goes back to the agent byte
// for byte is refused beyond them, what is shown and compared by us alone is shortened.
const (
	MaxAgentID = 1 << 10      // an id
	maxLine    = 8 << 10      // a title, a label, a path
	maxSaid    = 16 << 10     // a sentence: the text of a warning, a reason, an error
	maxNamed   = 64 << 10     // what has no shape of its own
	maxShown   = 4 * maxNamed // what somebody decides by: the detail of a request, the schema of a form
	maxChoices = 500          // options, questions, models, modes
	maxPaths   = 1000
)

// CheckAgentID refuses an id that an agent gave and that is to go back to it, by what it is the id of.
func CheckAgentID(what, id string) error {
	if len(id) <= MaxAgentID {
		return nil
	}
	return Errorf(CodeAgentProtocol, "the agent named %s with an id of %d bytes, the limit is %d", what, len(id), MaxAgentID).
		Do("use another version of the agent")
}

// CheckIDs refuses a request whose answer would carry an id beyond the bounds, or that offers more than anybody can look at.
func (r *Request) CheckIDs() error {
	if len(r.Schema) > maxShown || len(r.URL) > maxLine {
		return Errorf(CodeAgentProtocol, "the agent's request has a form of %d bytes and an address of %d, the limits are %d and %d", len(r.Schema), len(r.URL), maxShown, maxLine).
			Do("use another version of the agent")
	}
	options := len(r.Options)
	for _, o := range r.Options {
		if err := CheckAgentID("an option", o.OptionID); err != nil {
			return err
		}
	}
	for _, q := range r.Questions {
		if err := CheckAgentID("a question", q.ID); err != nil {
			return err
		}
		for _, o := range q.Options {
			if err := CheckAgentID("an answer", o.ID); err != nil {
				return err
			}
		}
		options = max(options, len(q.Options))
	}
	if n := max(options, len(r.Questions)); n > maxChoices {
		return Errorf(CodeAgentProtocol, "the agent offers %d choices, the limit is %d", n, maxChoices).Do("use another version of the agent")
	}
	return nil
}

// Bounded is the event with everything that an agent named in it within the bounds; what is cut for that is redacted before.
func (e Event) Bounded(hide Redactor) Event {
	e.Turn, e.Item, e.Agent, e.Code = hide.short(e.Turn), hide.short(e.Item), hide.short(e.Agent), Code(hide.short(string(e.Code)))
	e.Follows = hide.short(e.Follows)
	switch e.Kind {
	case EventText, EventReasoning, EventPlan: // a text is what it is
	default:
		e.Text = hide.cut(e.Text, maxSaid)
	}
	if e.Tool != nil {
		e.Tool = e.Tool.bounded(hide)
	}
	if e.Request != nil {
		e.Request = e.Request.bounded(hide)
	}
	if e.Settled != nil {
		s := *e.Settled
		s.Outcome, s.Reason, s.By = hide.short(s.Outcome), hide.cut(s.Reason, maxSaid), hide.short(s.By)
		e.Settled = &s
	}
	if e.Selection != nil {
		s := *e.Selection
		s.Evidence = s.Evidence.bounded(hide)
		e.Selection = &s
	}
	e.Data = hide.data(e.Data)
	return e
}

func (t *Tool) bounded(hide Redactor) *Tool {
	if len(t.Name) <= MaxAgentID && len(t.Title) <= maxLine && len(t.Status) <= MaxAgentID && len(t.Paths) == 0 {
		return t
	}
	c := *t
	c.Name, c.Title, c.Status, c.Paths = hide.short(c.Name), hide.cut(c.Title, maxLine), hide.short(c.Status), hide.lines(c.Paths, maxPaths)
	return &c
}

func (r *Request) bounded(hide Redactor) *Request {
	c := *r
	c.Handle, c.Agent = hide.short(c.Handle), hide.short(c.Agent)
	c.Title, c.Detail, c.URL, c.Reason = hide.cut(c.Title, maxLine), hide.cut(c.Detail, maxShown), hide.cut(c.URL, maxLine), hide.cut(c.Reason, maxSaid)
	if c.Tool != nil {
		c.Tool = c.Tool.bounded(hide)
	}
	c.Options = slices.Clone(c.Options)
	for i, o := range c.Options {
		c.Options[i] = Option{OptionID: o.OptionID, Kind: OptionKind(hide.short(string(o.Kind))), Label: hide.cut(o.Label, maxLine)}
	}
	c.Questions = slices.Clone(c.Questions)
	for i := range c.Questions {
		q := &c.Questions[i]
		q.Header, q.Text, q.Options = hide.cut(q.Header, maxLine), hide.cut(q.Text, maxNamed), slices.Clone(q.Options)
		for j, o := range q.Options {
			q.Options[j] = QuestionOption{ID: o.ID, Label: hide.cut(o.Label, maxLine), Description: hide.cut(o.Description, maxLine)}
		}
	}
	return &c
}

func (e Evidence) bounded(hide Redactor) Evidence {
	for _, s := range []*string{&e.Model, &e.Effort, &e.Mode, &e.Sandbox, &e.SandboxBy, &e.ApprovalPolicy, &e.AgentName, &e.AgentVersion} {
		*s = hide.short(*s)
	}
	if e.Cwd = hide.cut(e.Cwd, maxLine); len(e.Raw) > maxNamed {
		e.Raw = nil
	}
	return e
}

// Bounded is what an agent confirmed, within the bounds, or refused because its conversation cannot be named again.
func (o Opened) Bounded(hide Redactor) (Opened, error) {
	if err := CheckAgentID("the conversation", o.NativeID); err != nil {
		return Opened{}, err
	}
	o.Evidence = o.Evidence.bounded(hide)
	if o.Capability.Modes = named(o.Capability.Modes); len(o.Capability.Details) > maxNamed {
		o.Capability.Details = nil
	}
	o.Settled = slices.Clone(o.Settled)
	for i := range o.Settled {
		s := &o.Settled[i]
		s.Outcome, s.Reason, s.By = hide.short(s.Outcome), hide.cut(s.Reason, maxSaid), hide.short(s.By)
	}
	o.Data = hide.data(o.Data)
	return o, nil
}

// Bounded is what an agent says of itself, without what nobody could ask for.
func (p Probe) Bounded(hide Redactor) Probe {
	p.Version, p.Login, p.Modes = hide.short(p.Version), hide.short(p.Login), named(p.Modes)
	var models []Model
	for _, m := range p.Models {
		if len(m.ID) <= MaxAgentID && len(models) < maxChoices {
			m.Name, m.Efforts = hide.cut(m.Name, maxLine), named(m.Efforts)
			models = append(models, m)
		}
	}
	p.Models, p.Capability = models, hide.data(p.Capability)
	if len(p.Raw) > maxNamed {
		p.Raw = nil
	}
	return p
}

// Bounded is what an agent says of its conversations, without those that cannot be named again.
func (s ForeignSaid) Bounded(hide Redactor) ForeignSaid {
	var list []Conversation
	for _, c := range s.Conversations {
		if len(c.NativeID) <= MaxAgentID && len(c.Cwd) <= maxLine {
			c.Title, c.Source, c.Model, c.Files = hide.cut(c.Title, maxLine), hide.short(c.Source), hide.short(c.Model), hide.lines(c.Files, maxPaths)
			list = append(list, c)
		}
	}
	s.Conversations, s.Events = list, slices.Clone(s.Events)
	for i, e := range s.Events {
		s.Events[i] = e.Bounded(hide)
	}
	return s
}

// Bounded is the error with what an agent said in it within the bounds.
func (e *Error) Bounded(hide Redactor) *Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Code, c.Message, c.Action, c.Details = Code(hide.short(string(c.Code))), hide.cut(c.Message, maxSaid), hide.cut(c.Action, maxSaid), hide.data(c.Details)
	return &c
}

// short is a name that is compared and shown, and goes nowhere: one beyond the bound keeps what tells it from others.
func (hide Redactor) short(s string) string {
	if len(s) <= MaxAgentID {
		return s
	}
	s = hide.Redact(s)
	sum := sha256.Sum256([]byte(s))
	return hide.cut(s, 200) + hex.EncodeToString(sum[:8])
}

// cut is the beginning of a text, and a mark where that is not all of it.
func (hide Redactor) cut(s string, n int) string {
	if len(s) > n {
		s = hide.Redact(s)
	}
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func (hide Redactor) lines(list []string, n int) []string {
	list = slices.Clone(list[:min(len(list), n)])
	for i, s := range list {
		list[i] = hide.cut(s, maxLine)
	}
	return list
}

// named leaves out the names that are too long to be asked for.
func named(list []string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return len(s) > MaxAgentID })
	return list[:min(len(list), maxChoices)]
}

func (hide Redactor) data(data map[string]any) map[string]any {
	var out map[string]any // a copy, once something is too long
	for name, v := range data {
		key, value := hide.short(name), v
		switch v := v.(type) {
		case string:
			value = hide.cut(v, maxSaid)
			if key == name && len(v) <= maxSaid {
				continue
			}
		case bool, int, int64, float64:
			if key == name {
				continue
			}
		default:
			raw, err := json.Marshal(v)
			if err == nil && len(raw) > maxNamed {
				value = fmt.Sprintf("left out: %d bytes", len(raw))
			} else if key == name {
				continue
			}
		}
		if out == nil {
			out = make(map[string]any, len(data))
			for k, v := range data {
				out[k] = v
			}
		}
		delete(out, name)
		out[key] = value
	}
	if out == nil {
		return data
	}
	return out
}
