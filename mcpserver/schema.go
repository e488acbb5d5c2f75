package mcpserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// schema is the part of JSON Schema that the tools are described and their arguments checked with. Members keep the
// order of the Go fields, so that what an assistant reads first is what it needs first.
type schema struct {
	Type        string // object, array, string, integer, number, boolean; "" stands for any value
	Format      string
	Description string
	Enum        []string
	Min, Max    *int     // of an integer
	MaxItems    int      // of an array; 0: no bound
	Items       *schema  // of an array
	Values      *schema  // of an object that is a map; nil beside no Members: any members
	Members     []member // of an object with named members
	Required    []string // names of Members
	Closed      bool     // no other members than Members
}

type member struct {
	Name string
	*schema
}

func (s *schema) member(name string) *schema {
	for _, m := range s.Members {
		if m.Name == name {
			return m.schema
		}
	}
	return nil
}

func (s *schema) names() []string {
	names := make([]string, len(s.Members))
	for i, m := range s.Members {
		names[i] = m.Name
	}
	return names
}

// MarshalJSON writes the members in their order, which a map would lose.
func (s *schema) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	add := func(name string, v any) error {
		j, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		b.Write(j)
		return nil
	}
	var err error
	put := func(when bool, name string, v any) {
		if when && err == nil {
			err = add(name, v)
		}
	}
	put(s.Type != "", "type", s.Type)
	put(s.Format != "", "format", s.Format)
	put(s.Description != "", "description", s.Description)
	put(len(s.Enum) > 0, "enum", s.Enum)
	put(s.Min != nil, "minimum", s.Min)
	put(s.Max != nil, "maximum", s.Max)
	put(s.MaxItems > 0, "maxItems", s.MaxItems)
	put(s.Items != nil, "items", s.Items)
	put(s.Members != nil, "properties", members(s.Members))
	put(len(s.Required) > 0, "required", s.Required)
	put(s.Closed, "additionalProperties", false)
	put(s.Values != nil && s.Values.Type != "", "additionalProperties", s.Values)
	b.WriteByte('}')
	return b.Bytes(), err
}

type members []member

func (ms members) MarshalJSON() ([]byte, error) {
	o := make(ordered, len(ms))
	for i, m := range ms {
		o[i] = pair{m.Name, m.schema}
	}
	return o.MarshalJSON()
}

// inputSchema describes the arguments of a tool: no other members than the struct's, those without omitempty required.
func inputSchema[T any]() *schema { return describe(reflect.TypeFor[T](), true) }

// resultSchema describes a whole result. It stays open: results only grow.
func resultSchema[T any]() *schema { return describe(reflect.TypeFor[T](), false) }

// shallowSchema names the top-level members of a result with their types alone. Nothing is required and an error is
// one of the members: the client of the TypeScript SDK checks the structured content of failures against it too.
func shallowSchema[T any]() *schema {
	s := &schema{Type: "object"}
	membersOf(reflect.TypeFor[T](), func(name string, f reflect.StructField, _ bool) {
		top := &schema{Type: typeName(f.Type)}
		if top.Type == "array" {
			for f.Type.Kind() == reflect.Pointer {
				f.Type = f.Type.Elem()
			}
			top.Items = &schema{Type: typeName(f.Type.Elem())}
		}
		s.Members = append(s.Members, member{name, top})
	})
	s.Members = append(s.Members, member{"error", &schema{Type: "object"}})
	return s
}

// kinds are the closed sets of values that a Go type stands for.
var kinds = map[reflect.Type]func() []string{
	reflect.TypeFor[sessions.EventKind]():    func() []string { return texts(sessions.EventKinds()) },
	reflect.TypeFor[sessions.Code]():         func() []string { return texts(sessions.Codes()) },
	reflect.TypeFor[sessions.SessionState](): sessionStates,
}

func sessionStates() []string {
	return texts([]sessions.SessionState{sessions.SessionReserved, sessions.SessionStarting, sessions.SessionIdle,
		sessions.SessionRunning, sessions.SessionClosing, sessions.SessionClosed, sessions.SessionFailed, sessions.SessionDeleted})
}

// refinements narrow the members of arguments beyond what their Go type says. A name means the same in every tool.
var refinements = map[string]func(*schema){
	"wait_seconds":     func(s *schema) { s.Min, s.Max = new(0), new(sessions.MaxWaitSeconds) },
	"deadline_seconds": func(s *schema) { s.Min = new(0) },
	"limit":            func(s *schema) { s.Min = new(0) },
	"max_chars":        func(s *schema) { s.Min, s.Max = new(0), new(sessions.MaxChars) },
	"session_ids":      func(s *schema) { s.MaxItems = sessions.MaxWaitSessions },
	"form":             func(s *schema) { s.Type = "object" },
	"sandbox": func(s *schema) {
		s.Enum = []string{sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess}
	},
	"approval_policy": func(s *schema) {
		s.Enum = []string{sessions.ApprovalUntrusted, sessions.ApprovalOnRequest, sessions.ApprovalNever}
	},
	"approval-policy": func(s *schema) {
		s.Enum = []string{sessions.ApprovalUntrusted, sessions.ApprovalOnRequest, sessions.ApprovalNever}
	},
	"when_busy": func(s *schema) { s.Enum = []string{"refuse", "queue", "steer"} },
	"until":     func(s *schema) { s.Enum = []string{"settled_or_input", "event"} },
	"decision":  func(s *schema) { s.Enum = []string{"approve", "deny"} },
	"scope":     func(s *schema) { s.Enum = []string{"once", "session"} },
}

// typeName is the type of a Go type in JSON; "" is any.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "string"
	case t == reflect.TypeFor[json.RawMessage]():
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "" // an interface
}

func describe(t reflect.Type, input bool) *schema {
	s := &schema{Type: typeName(t)}
	switch {
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem(), input)
	case t == reflect.TypeFor[time.Time]():
		s.Format = "date-time"
	case s.Type == "string":
		if values := kinds[t]; values != nil {
			s.Enum = values()
		}
	case s.Type == "array":
		s.Items = describe(t.Elem(), input)
	case t.Kind() == reflect.Map:
		s.Values = describe(t.Elem(), input)
	case t.Kind() == reflect.Struct:
		s.Closed = input
		s.read(t, input)
	}
	return s
}

// read adds the fields of a struct as members.
func (s *schema) read(t reflect.Type, input bool) {
	membersOf(t, func(name string, f reflect.StructField, always bool) {
		m := describe(f.Type, input)
		m.Description = f.Tag.Get("jsonschema")
		if refine := refinements[name]; refine != nil && input {
			refine(m)
		}
		s.Members = append(s.Members, member{name, m})
		if always {
			s.Required = append(s.Required, name)
		}
	})
}

// membersOf are the members of a struct in JSON, and whether they are always there; an embedded struct gives its fields as
// if they were written there.
func membersOf(t reflect.Type, each func(name string, f reflect.StructField, always bool)) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			membersOf(f.Type, each)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		o := strings.Split(options, ",")
		each(name, f, !slices.Contains(o, "omitempty") && !slices.Contains(o, "omitzero"))
	}
}

func texts[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
