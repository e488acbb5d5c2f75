package acp

import (
	"encoding/json"
	"strings"
)

// Ids and categories of the options that selections are made with. An id goes before a category: the category "MUST
// NOT be required for correctness", and Cursor gives several options thought_level.
const (
	optionModel = "model"
	optionMode  = "mode"

	optionAuth = "auth_method" // one of ours, in runner_options: the authentication method to use

	categoryThought = "thought_level"
)

// option is one configuration option of a session, as the agent reported it.
type option struct {
	ID       string
	Name     string
	Category string
	Boolean  bool
	Current  any      // string or bool
	Choices  []choice // of a select, groups flattened
}

type choice struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

// parseOptions reads a full set of options. It reports false where there is none: a missing set confirms nothing, an
// empty one says that there are no options. Entries that cannot be read are left out.
func parseOptions(raw json.RawMessage) ([]option, bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	var entries []struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Category string            `json:"category"`
		Type     string            `json:"type"`
		Current  json.RawMessage   `json:"currentValue"`
		Options  []json.RawMessage `json:"options"`
	}
	if decode(raw, &entries) != nil {
		return nil, false
	}
	set := make([]option, 0, len(entries))
	for _, e := range entries {
		if e.ID == "" {
			continue
		}
		o := option{ID: e.ID, Name: e.Name, Category: e.Category, Boolean: e.Type == "boolean"}
		var current any
		if decode(e.Current, &current) == nil {
			switch current.(type) {
			case string, bool:
				o.Current = current
			}
		}
		for _, c := range e.Options {
			o.Choices = append(o.Choices, choicesOf(c)...)
		}
		set = append(set, o)
	}
	return set, true
}

// choicesOf reads one entry of a select's options, which is a choice or a group of choices.
func choicesOf(raw json.RawMessage) []choice {
	var entry struct {
		choice
		Options []choice `json:"options"`
	}
	if decode(raw, &entry) != nil {
		return nil
	}
	if entry.Options != nil {
		return entry.Options
	}
	return []choice{entry.choice}
}

// find takes an option by its id, and only then by its category.
func find(set []option, id, category string) *option {
	for i := range set {
		if set[i].ID == id {
			return &set[i]
		}
	}
	if category == "" {
		return nil
	}
	for i := range set {
		if set[i].Category == category {
			return &set[i]
		}
	}
	return nil
}

// findEffort is the option that sets how much a model thinks: effort, reasoning, or what the category says. Cursor
// files its on/off option thinking under the same category (2026.09), so that one is passed over.
func findEffort(set []option) *option {
	for _, id := range []string{"effort", "reasoning"} {
		if o := find(set, id, ""); o != nil {
			return o
		}
	}
	for i := range set {
		if set[i].Category == categoryThought && set[i].ID != "thinking" {
			return &set[i]
		}
	}
	return nil
}

// pick turns the name of a value into the option's own value. It reports false for a value that is not offered.
func (o *option) pick(name string) (any, bool) {
	if o.Boolean {
		switch name {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		return nil, false
	}
	for _, c := range o.Choices {
		if c.Value == name {
			return c.Value, true
		}
	}
	return nil, false
}

// pickEffort is pick for the spellings of an effort: Cursor has had extra-high and xhigh for the same one.
func (o *option) pickEffort(name string) (any, bool) {
	if v, ok := o.pick(name); ok {
		return v, true
	}
	for _, c := range o.Choices {
		if !o.Boolean && plainEffort(c.Value) == plainEffort(name) {
			return c.Value, true
		}
	}
	return nil, false
}

func plainEffort(name string) string {
	switch name {
	case "extra-high", "extra_high", "x-high":
		return "xhigh"
	}
	return name
}

// offers lists the values that an option takes.
func (o *option) offers() []string {
	if o.Boolean {
		return []string{"false", "true"}
	}
	values := make([]string, len(o.Choices))
	for i, c := range o.Choices {
		values[i] = c.Value
	}
	return values
}

// current is the option's value as text, "" when it could not be read.
func (o *option) current() string { return valueText(o.Current) }

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return ""
}

// list is values in a sentence.
func list(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}
