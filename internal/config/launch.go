package config

import (
	"maps"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// Wish is what of a session may show in how its agent is started.
type Wish struct {
	Selection sessions.Selection
	Roots     []string       // further writable ones
	Options   map[string]any // runner_options
}

// launch is the making of a command line.
type launch struct {
	Wish
	args []string
	used map[string]bool
	err  error
}

// Start gives the runner as it is to be started for a session, and the options that are for the agent to take later.
func (r Runner) Start(w Wish) (Runner, map[string]any, error) {
	own := builtin[r.Name]
	if own.flags == nil {
		return r, w.Options, nil
	}
	l := &launch{Wish: w, used: map[string]bool{}}
	own.flags(l)
	if l.err != nil {
		return r, nil, l.err
	}
	rest := maps.Clone(w.Options)
	maps.DeleteFunc(rest, func(name string, _ any) bool { return l.used[name] })
	at := len(r.Argv)
	if before := at - len(own.args); !own.append && before > 0 && slices.Equal(r.Argv[before:], own.args) && !r.Embedded {
		at = before
	}
	r.Argv = slices.Insert(slices.Clone(r.Argv), at, l.args...)
	return r, rest, nil
}

// flag is an option that is on or off.
func (l *launch) flag(name string, byDefault bool) bool {
	v, given := l.Options[name]
	l.used[name] = true
	on, ok := v.(bool)
	switch {
	case !given:
		return byDefault
	case !ok && l.err == nil:
		l.err = sessions.Errorf(sessions.CodeInvalidParams, "runner option %s is %v, it is true or false", name, v)
	}
	return on
}

// word is an option that is one of some words.
func (l *launch) word(name, byDefault string, allowed ...string) string {
	v, given := l.Options[name]
	l.used[name] = true
	word, ok := v.(string)
	switch {
	case !given:
		return byDefault
	case (!ok || !slices.Contains(allowed, word)) && l.err == nil:
		l.err = sessions.Errorf(sessions.CodeInvalidParams, "runner option %s is %v", name, v).Do("use one of: %v", allowed)
	}
	return word
}

func (l *launch) add(args ...string) { l.args = append(l.args, args...) }

// cursorFlags are root flags of cursor-agent, so they stand before its sub-command. --model is not among them: a name
// that the command does not know ends it (2026.08), and what it does know the ACP session does not always take over.
//
// Cursor's own sandbox is on whenever a sandbox was asked, and off with full access. It is not what confirms the
// session's sandbox, because Cursor never reports it. Whoever asks for a session in a folder trusts the folder; without
// --trust an agent without a terminal cannot ask. --force, with which commands are not asked about any more, is never
// implied: it is for whoever names it.
func cursorFlags(l *launch) {
	own := "enabled"
	if l.Selection.Sandbox == sessions.SandboxFullAccess {
		own = "disabled"
	}
	if l.flag("trust", true) {
		l.add("--trust")
	}
	if own = l.word("sandbox", own, "enabled", "disabled", "default"); own != "default" {
		l.add("--sandbox", own)
	}
	for _, dir := range l.Roots {
		l.add("--add-dir", dir)
	}
	if l.flag("force", false) {
		l.add("--force")
	}
}

// geminiFlags: Gemini CLI confirms neither a model nor a mode that is set over ACP, but it reports those that it was
// started with (0.61.0). In a folder that it does not trust it reports, and is in, its default mode whatever was asked;
// trusting one lets the project's own hooks and settings in, so that is for whoever names it.
func geminiFlags(l *launch) {
	if l.Selection.Model != "" {
		l.add("--model", l.Selection.Model)
	}
	if l.flag("trust", false) {
		l.add("--skip-trust")
	}
	switch {
	case l.Selection.Mode == "plan":
		l.add("--approval-mode", "plan")
	case l.Selection.ApprovalPolicy == sessions.ApprovalNever:
		l.add("--approval-mode", "yolo")
	}
}
