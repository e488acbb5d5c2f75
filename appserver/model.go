package appserver

import (
	"context"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// catalog is what model/list says. thread/start and turn/start take any model and any effort and echo them, so that
// this list is the only thing to check either against.
type catalog struct {
	models []model
	err    error // why there is no list
}

// maxModelPages bounds a list whose cursor never ends.
const maxModelPages = 100

func (a *Agent) listModels(ctx context.Context) (catalog, error) {
	var c catalog
	var cursor string
	for range maxModelPages {
		var page modelListResult
		err := a.ask(ctx, "model/list", modelListParams{IncludeHidden: true, Cursor: cursor}, &page)
		if refused(err) != nil {
			return catalog{err: err}, nil // nothing can be confirmed then, which matters only to who asks for a model
		}
		if err != nil {
			return catalog{}, err
		}
		c.models = append(c.models, page.Data...)
		if cursor = page.NextCursor; cursor == "" {
			return c, nil
		}
	}
	return catalog{}, sessions.Errorf(sessions.CodeAgentProtocol, "model/list of Codex did not end within %d pages", maxModelPages).
		Do("update Codex")
}

// find takes the exact name, as id or as the model behind it.
func (c catalog) find(name string) *model {
	for i, m := range c.models {
		if m.ID == name || m.Model == name {
			return &c.models[i]
		}
	}
	return nil
}

func (m *model) efforts() []string {
	efforts := make([]string, len(m.Efforts))
	for i, e := range m.Efforts {
		efforts[i] = e.Effort
	}
	return efforts
}

// takesImages: a model without the member is of a version that did not list modalities.
func (m *model) takesImages() bool {
	return len(m.Modalities) == 0 || slices.Contains(m.Modalities, "image")
}

// offered is what a caller may choose from.
func (c catalog) offered() []sessions.Model {
	var out []sessions.Model
	for _, m := range c.models {
		if !m.Hidden {
			out = append(out, sessions.Model{ID: m.ID, Name: m.DisplayName, Efforts: m.efforts(), Default: m.IsDefault})
		}
	}
	return out
}

// slug is the name that Codex takes and reports for a model asked for.
func (c catalog) slug(name string) string {
	if m := c.find(name); m != nil {
		return m.Model
	}
	return name
}

// check refuses what the list does not have. An effort goes with the model named, or else the one in force; "" asks
// for nothing.
func (c catalog) check(name, effort, inForce string) error {
	if name == "" && effort == "" {
		return nil
	}
	if c.err != nil {
		return sessions.Errorf(sessions.CodeModelUnavailable, "which models Codex offers cannot be told: %w", c.err).
			Do("leave model and effort out, or update Codex")
	}
	m := c.find(name)
	if name != "" && m == nil {
		var ids []string
		for _, o := range c.offered() {
			ids = append(ids, o.ID)
		}
		return sessions.Errorf(sessions.CodeModelUnavailable, "model %q was asked, Codex offers %s", name, list(ids)).
			Do("choose one of those, or leave model out").With("offered", c.offered())
	}
	if effort == "" {
		return nil
	}
	if m == nil {
		if inForce == "" {
			return nil // not known yet; it is checked again when it is
		}
		if m = c.find(inForce); m == nil {
			return sessions.Errorf(sessions.CodeModelUnavailable, "effort %q was asked, the model in force, %q, is not in Codex's list", effort, inForce).
				Do("ask for a model too, or leave effort out").With("offered", c.offered())
		}
	}
	if !slices.Contains(m.efforts(), effort) {
		return sessions.Errorf(sessions.CodeModelUnavailable, "effort %q was asked, model %q offers %s", effort, m.ID, list(m.efforts())).
			Do("choose one of those, or leave effort out").With("offered", c.offered())
	}
	return nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
