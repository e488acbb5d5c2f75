package acp

import (
	"regexp"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Cursor names models in three ways: the ids that it offers over ACP, an id with its parameters in brackets, and the
// slugs of its command line, where effort, thinking and fast are suffixes and some families have another name.
// modelName is such a name, read against the ids on offer. What its parts mean can only be said once the model is
// selected, because the options change with the model.
type modelName struct {
	base   string      // an id on offer
	params [][2]string // from brackets: option id and value
	slug   bool        // the suffixes below were read
	effort string
	think  bool
	fast   bool
}

// setting is one option to set after the model.
type setting struct {
	option string
	value  any
}

// parseModel reads a name against the ids on offer, or refuses it with what there is.
func parseModel(name string, offered []choice) (modelName, error) {
	switch {
	case name == "":
		return modelName{}, refuseModel(name, "is empty", offered)
	case strings.ContainsAny(name, " \t\r\n"):
		return modelName{}, refuseModel(name, "has a blank inside", offered)
	case slices.ContainsFunc(offered, func(c choice) bool { return c.Value == name }):
		return modelName{base: name}, nil
	case name == "auto":
		return autoModel(offered)
	}
	if base, inner, ok := strings.Cut(name, "["); ok {
		return parseBrackets(name, base, inner, offered)
	}
	n := modelName{}
	for rest, twice := name, false; ; {
		match := sameModel(rest, offered)
		switch {
		case len(match) > 0 && twice:
			return n, refuseModel(name, "names more than one effort, or a suffix twice", offered)
		case len(match) > 0:
			return n.among(name, match, offered)
		}
		cut, suffix := cutSuffix(rest)
		switch {
		case suffix == "":
			return n, refuseModel(name, "is not offered", offered)
		case suffix == "fast":
			twice, n.fast = twice || n.fast, true
		case suffix == "thinking":
			twice, n.think = twice || n.think, true
		default:
			twice, n.effort = twice || n.effort != "", suffix
		}
		n.slug, rest = true, cut
	}
}

// autoModel is the command line's name for letting Cursor choose. Over ACP it has been auto-smart, or whatever is shown
// as Auto.
func autoModel(offered []choice) (modelName, error) {
	for _, fits := range []func(choice) bool{
		func(c choice) bool { return c.Value == "auto-smart" },
		func(c choice) bool { return c.Name == "Auto" },
	} {
		if i := slices.IndexFunc(offered, fits); i >= 0 {
			return modelName{base: offered[i].Value}, nil
		}
	}
	return modelName{}, refuseModel("auto", "is not offered", offered)
}

func parseBrackets(name, base, inner string, offered []choice) (modelName, error) {
	n := modelName{}
	inner, closed := strings.CutSuffix(inner, "]")
	if !closed || strings.ContainsAny(inner, "[]") {
		return n, refuseModel(name, "has brackets that do not close", offered)
	}
	for _, p := range strings.Split(inner, ",") {
		if inner == "" {
			break
		}
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" || value == "" {
			return n, refuseModel(name, "has "+p+" in brackets, which is not name=value", offered)
		}
		if slices.ContainsFunc(n.params, func(q [2]string) bool { return q[0] == key }) {
			return n, refuseModel(name, "has "+key+" twice", offered)
		}
		n.params = append(n.params, [2]string{key, value})
	}
	match := sameModel(base, offered)
	if len(match) == 0 {
		return n, refuseModel(name, "is not offered", offered)
	}
	return n.among(name, match, offered)
}

// among takes the one id that the name means. Several are on offer under one base where Cursor did not take the
// parameterizedModelPicker: each carries its parameters in brackets, and only one may fit.
func (n modelName) among(name string, match []string, offered []choice) (modelName, error) {
	if len(match) == 1 && !strings.Contains(match[0], "[") {
		n.base = match[0]
		return n, nil
	}
	var fits []string
	for _, id := range match {
		_, inner, _ := strings.Cut(strings.TrimSuffix(id, "]"), "[")
		if n.fits(inner) {
			fits = append(fits, id)
		}
	}
	switch len(fits) {
	case 1:
		return modelName{base: fits[0]}, nil
	case 0:
		return n, refuseModel(name, "is not offered in that variant", offered)
	default:
		return n, refuseModel(name, "fits several: "+list(fits), offered)
	}
}

// fits compares the name with the fixed parameters of an id.
func (n modelName) fits(inner string) bool {
	fixed := map[string]string{}
	for _, p := range strings.Split(inner, ",") {
		key, value, _ := strings.Cut(p, "=")
		fixed[key] = value
	}
	is := func(key, value string) bool {
		got, ok := fixed[key]
		return got == value || !ok && value == "false"
	}
	for _, p := range n.params {
		if !is(p[0], p[1]) {
			return false
		}
	}
	if !n.slug {
		return true
	}
	if n.effort != "" && plainEffort(fixed["effort"]) != n.effort && plainEffort(fixed["reasoning"]) != n.effort {
		return false
	}
	return (!n.think || is("thinking", "true")) && is("fast", map[bool]string{true: "true", false: "false"}[n.fast])
}

// settings says what to set once the model is selected, from the options that the agent reports for it.
func (n modelName) settings(name string, set []option) ([]setting, error) {
	var out []setting
	own := slices.DeleteFunc(slices.Clone(set), func(o option) bool {
		return o.ID == optionModel || o.ID == optionMode || o.Category == optionModel || o.Category == optionMode
	})
	add := func(key, value string) error {
		o := find(own, key, "")
		if o == nil {
			if value == "false" && (key == "fast" || key == "thinking") {
				return nil // what a model lacks is off
			}
			return refuseOption(name, key+" is not offered", own)
		}
		v, ok := o.pick(value)
		if !ok {
			return refuseOption(name, key+" takes "+list(o.offers())+", not "+value, own)
		}
		out = append(out, setting{o.ID, v})
		return nil
	}
	for _, p := range n.params {
		if err := add(p[0], p[1]); err != nil {
			return nil, err
		}
	}
	if !n.slug {
		return out, nil
	}
	if n.think {
		if err := add("thinking", "true"); err != nil {
			return nil, err
		}
	}
	if n.effort != "" {
		o := findEffort(own)
		if o == nil {
			return nil, refuseOption(name, "effort is not offered", own)
		}
		v, ok := o.pickEffort(n.effort)
		if !ok {
			return nil, refuseOption(name, "effort "+n.effort+" is not offered; "+list(o.offers())+" are", own)
		}
		out = append(out, setting{o.ID, v})
	}
	// A slug without -fast means the slow variant, whatever the option stands at.
	err := add("fast", map[bool]string{true: "true", false: "false"}[n.fast])
	return out, err
}

var suffixes = []string{"fast", "thinking", "none", "minimal", "low", "medium", "extra-high", "xhigh", "high", "max"}

// cutSuffix takes the last suffix off a slug.
func cutSuffix(slug string) (rest, suffix string) {
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(slug, "-"+s); ok && rest != "" {
			return rest, plainEffort(s)
		}
	}
	return slug, ""
}

// sameModel is the ids on offer that are this model under any of its names.
func sameModel(name string, offered []choice) []string {
	var exact, renamed []string
	for _, c := range offered {
		base, _, _ := strings.Cut(c.Value, "[")
		switch {
		case base == name:
			exact = append(exact, c.Value)
		case family(base) == family(name):
			renamed = append(renamed, c.Value)
		}
	}
	if exact != nil {
		return exact
	}
	return renamed
}

var claudeVersion = regexp.MustCompile(`^\d+(\.\d+)*$`)

// family brings the names of one model together: cursor-grok-4.6 is grok-4.6, and claude-4.6-opus is claude-opus-4-6.
func family(name string) string {
	name = strings.TrimPrefix(name, "cursor-")
	rest, ok := strings.CutPrefix(name, "claude-")
	if !ok {
		return name
	}
	var words, version []string
	for _, part := range strings.Split(rest, "-") {
		if claudeVersion.MatchString(part) {
			version = append(version, part)
		} else {
			words = append(words, part)
		}
	}
	return "claude-" + strings.Join(words, "-") + "-" + strings.Join(version, ".")
}

// refuseModel says why a name is no model on offer, and what is.
func refuseModel(name, why string, offered []choice) error {
	ids := make([]string, len(offered))
	for i, c := range offered {
		ids[i] = c.Value
	}
	e := sessions.Errorf(sessions.CodeModelUnavailable, "model %q %s", name, why).With("offered", ids)
	for _, id := range ids {
		if name != id && strings.EqualFold(name, id) {
			return e.Do("did you mean %s? Offered are: %s", id, list(ids))
		}
	}
	return e.Do("choose one of: %s", list(ids))
}

// refuseOption says why the selected model cannot be set up as its name asks, and what it offers.
func refuseOption(name, why string, own []option) error {
	choices := map[string]any{}
	var said []string
	for i := range own {
		choices[own[i].ID] = own[i].offers()
		said = append(said, own[i].ID+" ("+list(own[i].offers())+")")
	}
	return sessions.Errorf(sessions.CodeModelUnavailable, "model %q: %s", name, why).
		With("options", choices).Do("this model offers: %s", list(said))
}
