package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// What the user hides from every agent is masked, and what would then not work is refused with what to do.
func TestHidden(t *testing.T) {
	base := folder(t)
	keys, work := filepath.Join(base, "keys"), filepath.Join(base, "work")
	for _, d := range []string{keys, filepath.Join(work, "deep")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(work, "env")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(base, "way")
	link(t, keys, way)
	cat, err := filepath.EvalSymlinks("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		list []string
		want []string
		code sessions.Code
		says string
		no   bool // no mount namespace
	}{
		"nothing":                 {},
		"a folder":                {list: []string{keys}, want: []string{keys}},
		"by a link, and twice":    {list: []string{way, keys}, want: []string{keys}},
		"what is not there":       {list: []string{base + "/none", keys}, want: []string{keys}},
		"a file of the workspace": {list: []string{file}, want: []string{file}},
		"the workspace":           {list: []string{work + "/deep"}, code: sessions.CodeInvalidParams, says: "work in"},
		"what holds it":           {list: []string{work}, code: sessions.CodeInvalidParams, says: "[sandbox]"},
		"the program":             {list: []string{cat}, code: sessions.CodeInvalidParams, says: "program of runner fake"},
		"the home folder":         {list: []string{"~/../" + filepath.Base(base)}, code: sessions.CodeInvalidParams, says: "home folder"},
		"without namespaces":      {list: []string{keys}, code: sessions.CodeSandboxUnavailable, says: "doctor", no: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.can.MountNamespace = !c.no
			if name == "the home folder" {
				r.who.Env = []string{"HOME=" + base, "PATH=/usr/bin:/bin"}
			}
			text := "\n[sandbox]\nhidden = ["
			for _, p := range c.list {
				text += fmt.Sprintf("%q, ", p)
			}
			r.configure(configuration + text + "]\n")
			res, err := r.Create(t.Context(), r.who, r.args(func(a *sessions.CreateArgs) { a.Cwd = work + "/deep" }))
			if c.code != "" {
				refused(t, err, c.code, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			l := r.launches[res.Session.Generation]
			masks := r.tenderOf(res.Session.SessionID, res.Session.Generation, journal.Generation{}).masks()
			if !slices.Equal(l.spec.Open.Hidden, c.want) || !slices.Equal(masks, slices.Concat(r.Host.masks(), c.want)) {
				t.Errorf("told %q, masked %q, want %q", l.spec.Open.Hidden, masks, c.want)
			}
		})
	}
}
