package install

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// Change is what becomes of one configuration. Nothing is written before Apply.
type Change struct {
	File string
	// Before and After are the whole texts; nil where there is no file.
	Before, After []byte
	// Backup is the file that keeps Before once Apply has returned, "" when none is needed.
	Backup string
	// Foreign says what an entry does that is not Baton's: Uninstall leaves it, Install would put Baton in its place.
	Foreign string

	stale []string // backups that nobody needs after the change
	ours  bool     // Before holds nothing but the entry
	state fileState
}

// Changed tells whether there is anything to do.
func (c *Change) Changed() bool {
	return !bytes.Equal(c.Before, c.After) || (c.Before == nil) != (c.After == nil)
}

// Install puts Baton under a name into the configuration of a file. Members that a user added to the entry stay, and
// without arguments those that the entry has for `baton mcp` do; a new one has no others.
func (h Host) Install(file, name string, cmd Command) (*Change, error) {
	before, state, err := readFile(file)
	if err != nil {
		return nil, err
	}
	if cmd.Args == nil {
		cmd.Args = []string{"mcp"}
		if old, err := h.Registered(file, name); err == nil && len(old.Args) > 0 && old.Args[0] == "mcp" {
			cmd.Args = old.Args
		}
	}
	after, err := h.with(file, before, name, cmd)
	if err != nil {
		return nil, err
	}
	c := &Change{File: file, Before: before, After: after, state: state}
	c.Foreign, err = h.replaced(c, name, cmd.Program)
	return c, err
}

// replaced says what an entry of the name does that is not Baton's; "" where there is none, or Install made it.
func (h Host) replaced(c *Change, name, program string) (string, error) {
	d, err := h.parse(c.File, bytes.TrimPrefix(c.Before, byteOrderMark))
	if err != nil {
		return "", err
	}
	there := lookup(d.values(), append(slices.Clone(h.servers), name))
	if there == nil {
		return "", nil
	}
	entry, _ := there.(map[string]any)
	cmd, ok := h.command(entry)
	foreign := h.foreignEntry(entry, cmd, ok, []string{program})
	if foreign != "" && ok && h.restore(&Change{File: c.File, Before: c.Before}, name, cmd, false) {
		return "", nil
	}
	return foreign, nil
}

// Print is a configuration that holds nothing but Baton.
func (h Host) Print(name string, cmd Command) (string, error) {
	text, err := h.with("", nil, name, cmd)
	return string(text), err
}

// with is the text of a configuration with the entry in it.
func (h Host) with(file string, before []byte, name string, cmd Command) ([]byte, error) {
	text, marked := bytes.CutPrefix(before, byteOrderMark)
	d, err := h.parse(file, text)
	if err != nil {
		return nil, err
	}
	path := append(slices.Clone(h.servers), name)
	after := text
	for _, foreign := range h.foreign {
		if lookup(d.values(), append(slices.Clone(path), foreign)) == nil {
			continue
		}
		edits, err := d.remove(append(slices.Clone(path), foreign))
		if err != nil {
			return nil, unreadable(file, "%w", err)
		}
		after = apply(after, edits)
		if d, err = h.parse(file, after); err != nil {
			return nil, err
		}
	}
	fields := h.entry(cmd)
	edits, err := d.set(path, fields)
	if err != nil {
		return nil, unreadable(file, "%w", err)
	}
	after = apply(after, edits)
	if err := h.check(file, text, after, path, fields); err != nil {
		return nil, err
	}
	if marked {
		after = append(bytes.Clone(byteOrderMark), after...)
	}
	return after, nil
}

// check reads the new text: it must say what the old one said, and the entry.
func (h Host) check(file string, before, after []byte, path []string, fields []field) error {
	was, err := h.parse(file, before)
	if err != nil {
		return err
	}
	is, err := h.parse(file, after)
	if err != nil {
		return wrong(file, err)
	}
	had, _ := lookup(was.values(), path).(map[string]any)
	has, _ := lookup(is.values(), path).(map[string]any)
	if fields != nil {
		want := maps.Clone(had)
		if want == nil {
			want = map[string]any{}
		}
		for _, name := range h.foreign {
			delete(want, name)
		}
		for _, f := range fields {
			want[f.name] = f.value
			if m, ok := f.value.(map[string]string); ok {
				merged := map[string]any{}
				old, _ := had[f.name].(map[string]any)
				maps.Copy(merged, old)
				for k, v := range m {
					merged[k] = v
				}
				want[f.name] = merged
			}
		}
		if !same(has, want) {
			return wrong(file, fmt.Errorf("the entry would be %v", has))
		}
	} else if lookup(is.values(), path) != nil {
		return wrong(file, fmt.Errorf("%s would still be there", place(path)))
	}
	a, b := without(was.values(), path), without(is.values(), path)
	if !reflect.DeepEqual(a, b) {
		return wrong(file, fmt.Errorf("something beside %s would change", place(path)))
	}
	return nil
}

func wrong(file string, err error) error {
	return sessions.Errorf(sessions.CodeUnsupported, "%s is written in a way that cannot be edited safely: %w", file, err).
		Do("add the entry by hand (baton install HOST --print shows it); nothing was changed").With("file", file)
}

// without is what a configuration says beside a path. Tables that hold nothing else are left out.
func without(all map[string]any, path []string) map[string]any {
	out := maps.Clone(all)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	inner, ok := out[path[0]].(map[string]any)
	if !ok {
		return out
	}
	if inner = without(inner, path[1:]); len(inner) == 0 {
		delete(out, path[0])
	} else {
		out[path[0]] = inner
	}
	return out
}

// Uninstall takes the entry out. Where nothing else was changed since Install, the old bytes come back, from the backup
// that Install made. An entry that starts something else than `baton mcp` is left, unless Install can be seen to have made
// it or its program is one of those that are given.
func (h Host) Uninstall(file, name string, programs ...string) (*Change, error) {
	before, state, err := readFile(file)
	if err != nil {
		return nil, err
	}
	c := &Change{File: file, Before: before, After: before, state: state}
	text, marked := bytes.CutPrefix(before, byteOrderMark)
	d, err := h.parse(file, text)
	if err != nil {
		return nil, err
	}
	path := append(slices.Clone(h.servers), name)
	if before == nil || lookup(d.values(), path) == nil {
		return c, nil
	}
	entry, _ := lookup(d.values(), path).(map[string]any)
	cmd, ok := h.command(entry)
	foreign := h.foreignEntry(entry, cmd, ok, programs)
	if ok && h.restore(c, name, cmd, foreign == "") {
		return c, nil
	}
	if foreign != "" {
		c.Foreign = foreign
		return c, nil
	}
	edits, err := d.remove(path)
	if err != nil {
		return nil, unreadable(file, "%w", err)
	}
	after := apply(text, edits)
	if err := h.check(file, text, after, path, nil); err != nil {
		return nil, err
	}
	if marked {
		after = append(bytes.Clone(byteOrderMark), after...)
	}
	c.After = after
	return c, nil
}

// foreignEntry says what an entry does that is not Baton's; "" of one that is.
func (h Host) foreignEntry(entry map[string]any, cmd Command, ok bool, programs []string) string {
	for _, name := range h.foreign {
		if _, there := entry[name]; there {
			return "is a server elsewhere (" + name + ")"
		}
	}
	switch {
	case !ok:
		return "names no command"
	case filepath.Base(cmd.Program) == "baton" && len(cmd.Args) > 0 && cmd.Args[0] == "mcp",
		slices.ContainsFunc(programs, func(p string) bool { return sameProgram(p, cmd.Program) }):
		return ""
	}
	return "starts " + strings.Join(append([]string{cmd.Program}, cmd.Args...), " ")
}

// sameProgram tells whether two paths lead to one file.
func sameProgram(a, b string) bool {
	if a == "" || filepath.Clean(a) == filepath.Clean(b) {
		return a != ""
	}
	x, err := os.Stat(a)
	y, berr := os.Stat(b)
	return err == nil && berr == nil && os.SameFile(x, y)
}

// restore finds the text from which Install made the present one. That there was none is believed of an entry of ours.
func (h Host) restore(c *Change, name string, cmd Command, ours bool) bool {
	path := append(slices.Clone(h.servers), name)
	backups := backupsOf(c.File)
	for _, b := range slices.Backward(backups) {
		old, _, err := readFile(b)
		if err != nil || old == nil {
			continue
		}
		d, err := h.parse(b, bytes.TrimPrefix(old, byteOrderMark))
		if err != nil || lookup(d.values(), path) != nil {
			continue
		}
		if again, err := h.with(b, old, name, cmd); err == nil && bytes.Equal(again, c.Before) {
			c.After, c.stale = old, []string{b}
			return true
		}
	}
	if fresh, err := h.with(c.File, nil, name, cmd); ours && err == nil && bytes.Equal(fresh, c.Before) && len(backups) == 0 {
		c.After, c.ours = nil, true
		return true
	}
	return false
}

// Registered reads the entry as its host does: from the file, by another reader than the one that edits.
func (h Host) Registered(file, name string) (Command, error) {
	text, _, err := readFile(file)
	if err != nil {
		return Command{}, err
	}
	d, err := h.parse(file, bytes.TrimPrefix(text, byteOrderMark))
	if err != nil {
		return Command{}, err
	}
	entry, _ := lookup(d.values(), append(slices.Clone(h.servers), name)).(map[string]any)
	cmd, ok := h.command(entry)
	if !ok || !filepath.IsAbs(cmd.Program) {
		return Command{}, sessions.Errorf(sessions.CodeNotFound, "%s has no command under %s", file, place(append(slices.Clone(h.servers), name))).
			Do("install it: baton install %s", h.Name)
	}
	return cmd, nil
}
