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

// Bounded is the event with everything that an agent named in it within the bounds.
func (e Event) Bounded() Event {
	e.Turn, e.Item, e.Agent, e.Code = short(e.Turn), short(e.Item), short(e.Agent), Code(short(string(e.Code)))
	switch e.Kind {
	case EventText, EventReasoning, EventPlan: // a text is what it is
	default:
		e.Text = cut(e.Text, maxSaid)
	}
	if e.Tool != nil {
		e.Tool = e.Tool.bounded()
	}
	if e.Request != nil {
		e.Request = e.Request.bounded()
	}
	if e.Settled != nil {
		s := *e.Settled
		s.Outcome, s.Reason, s.By = short(s.Outcome), cut(s.Reason, maxSaid), short(s.By)
		e.Settled = &s
	}
	if e.Selection != nil {
		s := *e.Selection
		s.Evidence = s.Evidence.bounded()
		e.Selection = &s
	}
	e.Data = boundedData(e.Data)
	return e
}

func (t *Tool) bounded() *Tool {
	if len(t.Name) <= MaxAgentID && len(t.Title) <= maxLine && len(t.Status) <= MaxAgentID && len(t.Paths) == 0 {
		return t
	}
	c := *t
	c.Name, c.Title, c.Status, c.Paths = short(c.Name), cut(c.Title, maxLine), short(c.Status), lines(c.Paths, maxPaths)
	return &c
}

func (r *Request) bounded() *Request {
	c := *r
	c.Handle, c.Agent = short(c.Handle), short(c.Agent)
	c.Title, c.Detail, c.URL, c.Reason = cut(c.Title, maxLine), cut(c.Detail, maxShown), cut(c.URL, maxLine), cut(c.Reason, maxSaid)
	if c.Tool != nil {
		c.Tool = c.Tool.bounded()
	}
	c.Options = slices.Clone(c.Options)
	for i, o := range c.Options {
		c.Options[i] = Option{OptionID: o.OptionID, Kind: OptionKind(short(string(o.Kind))), Label: cut(o.Label, maxLine)}
	}
	c.Questions = slices.Clone(c.Questions)
	for i := range c.Questions {
		q := &c.Questions[i]
		q.Header, q.Text, q.Options = cut(q.Header, maxLine), cut(q.Text, maxNamed), slices.Clone(q.Options)
		for j, o := range q.Options {
			q.Options[j] = QuestionOption{ID: o.ID, Label: cut(o.Label, maxLine), Description: cut(o.Description, maxLine)}
		}
	}
	return &c
}

func (e Evidence) bounded() Evidence {
	for _, s := range []*string{&e.Model, &e.Effort, &e.Mode, &e.Sandbox, &e.SandboxBy, &e.ApprovalPolicy, &e.AgentName, &e.AgentVersion} {
		*s = short(*s)
	}
	if e.Cwd = cut(e.Cwd, maxLine); len(e.Raw) > maxNamed {
		e.Raw = nil
	}
	return e
}

// Bounded is what an agent confirmed, within the bounds, or refused because its conversation cannot be named again.
func (o Opened) Bounded() (Opened, error) {
	if err := CheckAgentID("the conversation", o.NativeID); err != nil {
		return Opened{}, err
	}
	o.Evidence = o.Evidence.bounded()
	if o.Capability.Modes = named(o.Capability.Modes); len(o.Capability.Details) > maxNamed {
		o.Capability.Details = nil
	}
	o.Settled = slices.Clone(o.Settled)
	for i := range o.Settled {
		s := &o.Settled[i]
		s.Outcome, s.Reason, s.By = short(s.Outcome), cut(s.Reason, maxSaid), short(s.By)
	}
	o.Data = boundedData(o.Data)
	return o, nil
}

// Bounded is what an agent says of itself, without what nobody could ask for.
func (p Probe) Bounded() Probe {
	p.Version, p.Login, p.Modes = short(p.Version), short(p.Login), named(p.Modes)
	var models []Model
	for _, m := range p.Models {
		if len(m.ID) <= MaxAgentID && len(models) < maxChoices {
			m.Name, m.Efforts = cut(m.Name, maxLine), named(m.Efforts)
			models = append(models, m)
		}
	}
	p.Models, p.Capability = models, boundedData(p.Capability)
	if len(p.Raw) > maxNamed {
		p.Raw = nil
	}
	return p
}

// Bounded is what an agent says of its conversations, without those that cannot be named again.
func (s ForeignSaid) Bounded() ForeignSaid {
	var list []Conversation
	for _, c := range s.Conversations {
		if len(c.NativeID) <= MaxAgentID && len(c.Cwd) <= maxLine {
			c.Title, c.Source, c.Model, c.Files = cut(c.Title, maxLine), short(c.Source), short(c.Model), lines(c.Files, maxPaths)
			list = append(list, c)
		}
	}
	s.Conversations, s.Events = list, slices.Clone(s.Events)
	for i, e := range s.Events {
		s.Events[i] = e.Bounded()
	}
	return s
}

// Bounded is the error with what an agent said in it within the bounds.
func (e *Error) Bounded() *Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Code, c.Message, c.Action, c.Details = Code(short(string(c.Code))), cut(c.Message, maxSaid), cut(c.Action, maxSaid), boundedData(c.Details)
	return &c
}

// short is a name that is compared and shown, and goes nowhere: one beyond the bound keeps what tells it from others.
func short(s string) string {
	if len(s) <= MaxAgentID {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return cut(s, 200) + hex.EncodeToString(sum[:8])
}

// cut is the beginning of a text, and a mark where that is not all of it.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func lines(list []string, n int) []string {
	list = slices.Clone(list[:min(len(list), n)])
	for i, s := range list {
		list[i] = cut(s, maxLine)
	}
	return list
}

// named leaves out the names that are too long to be asked for.
func named(list []string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return len(s) > MaxAgentID })
	return list[:min(len(list), maxChoices)]
}

func boundedData(data map[string]any) map[string]any {
	var out map[string]any // a copy, once something is too long
	for name, v := range data {
		key, value := short(name), v
		switch v := v.(type) {
		case string:
			value = cut(v, maxSaid)
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
