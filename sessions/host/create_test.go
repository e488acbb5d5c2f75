package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

func TestCreateIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(r.o.Places.State, link); err != nil {
		t.Fatal(err)
	}
	set := func(change func(*sessions.Settings)) func(*sessions.CreateArgs) {
		return func(a *sessions.CreateArgs) { change(&a.Settings) }
	}
	for name, c := range map[string]struct {
		change func(*sessions.CreateArgs)
		code   sessions.Code
		says   string
	}{
		"no runner":              {func(a *sessions.CreateArgs) { a.Runner = "" }, sessions.CodeInvalidParams, "runner_list"},
		"an unknown runner":      {func(a *sessions.CreateArgs) { a.Runner = "gpt" }, sessions.CodeRunnerMissing, "gpt"},
		"no directory":           {func(a *sessions.CreateArgs) { a.Cwd = "" }, sessions.CodeInvalidParams, "cwd is missing"},
		"a relative directory":   {func(a *sessions.CreateArgs) { a.Cwd = "work" }, sessions.CodeInvalidParams, "relative"},
		"a missing directory":    {func(a *sessions.CreateArgs) { a.Cwd = "/no/such" }, sessions.CodeInvalidParams, "does not exist"},
		"a file":                 {func(a *sessions.CreateArgs) { a.Cwd = file }, sessions.CodeInvalidParams, "no directory"},
		"a NUL":                  {func(a *sessions.CreateArgs) { a.Cwd = "/\x00" }, sessions.CodeInvalidParams, "NUL"},
		"Baton's own":            {func(a *sessions.CreateArgs) { a.Cwd = r.o.Places.State }, sessions.CodeInvalidParams, "own directory"},
		"below Baton's own":      {func(a *sessions.CreateArgs) { a.Cwd = r.o.Places.Logs() }, sessions.CodeInvalidParams, "own directory"},
		"Baton's own by a link":  {func(a *sessions.CreateArgs) { a.Cwd = link }, sessions.CodeInvalidParams, "own directory"},
		"a wrong id":             {func(a *sessions.CreateArgs) { a.SessionID = "../x" }, sessions.CodeInvalidParams, "session_id"},
		"an upper case id":       {func(a *sessions.CreateArgs) { a.SessionID = strings.ToUpper(sessions.NewID()) }, sessions.CodeInvalidParams, "lowercase"},
		"a command id alone":     {func(a *sessions.CreateArgs) { a.CommandID = "c" }, sessions.CodeInvalidParams, "without a prompt"},
		"an empty prompt":        {func(a *sessions.CreateArgs) { a.Prompt = " \n" }, sessions.CodeInvalidParams, "empty"},
		"a long prompt":          {func(a *sessions.CreateArgs) { a.Prompt = strings.Repeat("x", sessions.MaxPromptBytes+1) }, sessions.CodeLimitExceeded, "1048576"},
		"a long title":           {func(a *sessions.CreateArgs) { a.Title = strings.Repeat("x", maxLine+1) }, sessions.CodeLimitExceeded, "title"},
		"a title of two lines":   {func(a *sessions.CreateArgs) { a.Title = "a\nb" }, sessions.CodeInvalidParams, "title"},
		"a long model":           {set(func(s *sessions.Settings) { s.Model = strings.Repeat("x", maxLine+1) }), sessions.CodeLimitExceeded, "model"},
		"a model with NUL":       {set(func(s *sessions.Settings) { s.Model = "m\x00" }), sessions.CodeInvalidParams, "model"},
		"a long effort":          {set(func(s *sessions.Settings) { s.Effort = strings.Repeat("x", maxLine+1) }), sessions.CodeLimitExceeded, "effort"},
		"patience":               {func(a *sessions.CreateArgs) { a.WaitSeconds = ptr(51) }, sessions.CodeInvalidParams, "wait_seconds"},
		"a mode":                 {set(func(s *sessions.Settings) { s.Mode = "yolo" }), sessions.CodeInvalidParams, "mode"},
		"a policy":               {set(func(s *sessions.Settings) { s.ApprovalPolicy = "always" }), sessions.CodeInvalidParams, "approval_policy"},
		"an answer policy":       {set(func(s *sessions.Settings) { s.AutoAnswer = "yes" }), sessions.CodeInvalidParams, "auto_answer"},
		"a profile":              {set(func(s *sessions.Settings) { s.Profile = "p" }), sessions.CodeUnsupported, "profile"},
		"a name with =":          {set(func(s *sessions.Settings) { s.Env = map[string]string{"A=B": "c"} }), sessions.CodeInvalidParams, "A=B"},
		"a value with NUL":       {set(func(s *sessions.Settings) { s.Env = map[string]string{"A": "\x00secret"} }), sessions.CodeInvalidParams, "NUL"},
		"a root that is missing": {set(func(s *sessions.Settings) { s.WritableRoots = []string{"/no/such"} }), sessions.CodeInvalidParams, "writable_roots"},
		"a root that holds a read-only cwd": {set(func(s *sessions.Settings) { s.Sandbox, s.WritableRoots = sessions.SandboxReadOnly, []string{r.cwd} }),
			sessions.CodeInvalidParams, "holds the cwd"},
		"what ACP cannot sandbox": {func(a *sessions.CreateArgs) { a.Runner = "fakeacp" }, sessions.CodeSandboxUnavailable, "danger-full-access"},
		"ACP and servers": {func(a *sessions.CreateArgs) {
			a.Runner, a.Sandbox, a.MCPServers = "fakeacp", sessions.SandboxFullAccess, []sessions.MCPServer{{Name: "s"}}
		}, sessions.CodeUnsupported, "mcp_servers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Create(t.Context(), r.who, r.args(c.change))
			refused(t, err, c.code, c.says)
			if strings.Contains(err.Error(), "secret") {
				t.Error("a value is told")
			}
		})
	}
	if n := len(r.list(func(a *sessions.ListArgs) { a.All = true }).Sessions); n != 0 || r.Live() != 0 {
		t.Errorf("%d sessions were stored", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.launches) != 0 {
		t.Errorf("%d launches are kept", len(r.launches))
	}
}

// Where an agent could answer its own requests full access is refused, unless the host is configured to allow it.
func TestFullAccessNeedsAMountNamespace(t *testing.T) {
	r := newRig(t)
	full := r.args(func(a *sessions.CreateArgs) { a.Sandbox = sessions.SandboxFullAccess })
	r.can = sandbox.Capability{Rung: sandbox.ProcessGroup, Reasons: []string{"no user namespaces here"}}
	_, err := r.Create(t.Context(), r.who, full)
	refused(t, err, sessions.CodeSandboxUnavailable, "no user namespaces here", "allow_unconfined_full_access")
	r.configure(configuration + "[host]\nallow_unconfined_full_access = true\n")
	if _, err = r.Create(t.Context(), r.who, full); err != nil {
		t.Error(err)
	}
}

func TestCreateIsBounded(t *testing.T) {
	r := newRig(t)
	r.o.MaxSessions = 2
	a := r.args(func(a *sessions.CreateArgs) { a.Key = "k" })
	if _, err := r.Create(t.Context(), r.who, a); err != nil {
		t.Fatal(err)
	}
	r.starting()
	_, err := r.Create(t.Context(), r.who, r.args())
	refused(t, err, sessions.CodeLimitExceeded, "limit is 2")
	if _, err := r.Create(t.Context(), r.who, a); err != nil {
		t.Errorf("a repetition: %v", err)
	}
}

// A create that is run again, since what it was run beside was undone, makes its own session, and not what that would have made.
func TestCreateIsRunAgain(t *testing.T) {
	r := newRig(t)
	one := func() *reservation {
		a := r.args(func(a *sessions.CreateArgs) { a.SessionID, a.Key = "5e0cbf6a-3d0b-4c5e-8f0b-0d6b9f3a7c11", "k" })
		return &reservation{h: r.Host, who: r.who, a: creation{CreateArgs: a, verb: "create", mean: "m"}, own: created{session: a.SessionID, generation: sessions.NewID()}}
	}
	first, second := one(), one()
	undone := errors.New("undone")
	err := r.update(t.Context(), func(tx *journal.Tx, c *changes) error {
		if err := errors.Join(first.apply(tx, c), second.apply(tx, c)); err != nil {
			return err
		}
		return undone
	})
	if !errors.Is(err, undone) || first.id != first.own || second.id != first.own {
		t.Fatalf("%v: %+v and %+v", err, first.id, second.id)
	}
	for range 2 { // as where the first run was recorded after all
		for _, run := range []*reservation{second, first} {
			if err := r.update(t.Context(), run.apply); err != nil || run.id != second.own {
				t.Errorf("%v: %+v, want %+v", err, run.id, second.own)
			}
		}
	}
	// A host that knows of it ends it with the test.
	r.bridgeOf(sessions.Session{SessionID: second.own.session, Generation: second.own.generation})
}

// A configuration that cannot be read stops what needs it, by name, and nothing else.
func TestBrokenConfiguration(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	r.configure("[runners.x]\nprotocoll = 1\n")
	_, err := r.Create(t.Context(), r.who, r.args())
	refused(t, err, sessions.CodeInvalidParams, r.o.Places.Config, "protocoll")
	_, err = r.RunnerList(t.Context(), r.who, sessions.RunnerListArgs{})
	refused(t, err, sessions.CodeInvalidParams, r.o.Places.Config)
	if err := r.tidyOnce(); sessions.CodeOf(err) != sessions.CodeInvalidParams {
		t.Errorf("the janitor: %v", err)
	}
	s.settles("c", sessions.CommandCompleted)
	s.send("d")
	if _, err := s.closes(sessions.CloseArgs{WaitSeconds: ptr(0)}, func() {}); err != nil {
		t.Error(err)
	}
	r.configure(configuration)
	r.starting()
}

// I13: what is secret goes to the launch and nowhere else.
func TestI13_SecretsStayOut(t *testing.T) {
	r := newRig(t)
	s := r.starting(func(a *sessions.CreateArgs) {
		a.Env = map[string]string{"API_TOKEN": "sekret-one"}
		a.MCPServers = []sessions.MCPServer{{Name: "m", Command: "/bin/cat", Env: map[string]string{"T": "sekret-two"}, Headers: map[string]string{"Authorization": "sekret-three"}}}
		a.Key, a.Prompt = "k", "hello"
	})
	spec := r.launched(s.generation)
	if !slices.Contains(spec.Env, "API_TOKEN=sekret-one") || spec.Open.MCPServers[0].Headers["Authorization"] != "sekret-three" {
		t.Error("the launch lacks what was given")
	}
	s.frame("opened", sessions.Opened{NativeID: "n"})
	if err := filepath.WalkDir(r.o.Places.State, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("sekret")) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// Another value of the same name is the same call; another name is not.
	repeat := r.args(func(a *sessions.CreateArgs) {
		a.Env = map[string]string{"API_TOKEN": "other"}
		a.MCPServers = []sessions.MCPServer{{Name: "m", Command: "/bin/cat", Env: map[string]string{"T": "x"}, Headers: map[string]string{"Authorization": "y"}}}
		a.Key, a.Prompt = "k", "hello"
	})
	if _, err := r.Create(t.Context(), r.who, repeat); err != nil {
		t.Error(err)
	}
	repeat.Env = map[string]string{"OTHER_TOKEN": "other"}
	_, err := r.Create(t.Context(), r.who, repeat)
	refused(t, err, sessions.CodeKeyConflict)
}

// I01: on a disk that takes nothing a call changes nothing and says so; when it is back nothing of it comes up.
func TestI01_NothingIsSentWithoutItsIntent(t *testing.T) {
	r := newRig(t)
	s := r.runs()
	id := s.asks("h", once...)
	s.send("q", busy("queue"))
	before := s.events()
	path := r.o.Places.Journal()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create": func() error {
			_, err := r.Create(ctx, r.who, r.args(func(a *sessions.CreateArgs) { a.Key = "new" }))
			return err
		},
		"send":  func() error { _, err := s.trySend("d", busy("queue")); return err },
		"steer": func() error { _, err := s.trySend("e", busy("steer")); return err },
		"respond": func() error {
			_, err := r.Respond(ctx, r.who, sessions.RespondArgs{SessionID: s.id, RequestID: id, Decision: "approve"})
			return err
		},
		"cancel": func() error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id, CommandID: "q"})
			return err
		},
		"fence": func() error {
			_, err := r.Cancel(ctx, r.who, sessions.CancelArgs{SessionID: s.id, CommandID: sessions.NewID()})
			return err
		},
		"run_queue": func() error {
			_, err := s.resume(func(a *sessions.ResumeArgs) { a.RunQueue = true })
			return err
		},
	} {
		if err := call(); sessions.CodeOf(err) != sessions.CodeStorageFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if s.given() != "open, prompt c" || len(s.events()) != len(before) {
		t.Errorf("given: %s, %d events", s.given(), len(s.events()))
	}
	s.wants(sessions.SessionRunning, "c", "accepted", "q", "queued")
	r.tx(noCommand(s.id, "d", t))
	r.tx(noCommand(s.id, "e", t))
	if len(r.list().Sessions) != 1 {
		t.Error("a session was stored")
	}
	if q := s.request(id); q.State != sessions.RequestPending || q.Answer != nil {
		t.Errorf("%+v", q)
	}
}

// Images are files of the workspace, whatever leads to them.
func TestImages(t *testing.T) {
	cwd, outside := t.TempDir(), t.TempDir()
	real, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(cwd, "a.png"), filepath.Join(outside, "b.png"), cwd + "-evil", filepath.Join(cwd, "..c.png")} {
		if err := os.WriteFile(f, []byte("png"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Remove(cwd + "-evil") })
	for link, to := range map[string]string{"link.png": filepath.Join(cwd, "a.png"), "out.png": filepath.Join(outside, "b.png"), "dir": outside} {
		if err := os.Symlink(to, filepath.Join(cwd, link)); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{
		"a.png": "a.png", "./a.png": "a.png", filepath.Join(cwd, "a.png"): "a.png", "link.png": "a.png", "..c.png": "..c.png",
		"none.png": "", "out.png": "", "dir/b.png": "", filepath.Join(outside, "b.png"): "", "../" + filepath.Base(cwd) + "-evil": "", "dir": "", ".": "",
	} {
		got, err := imagePaths(cwd, []string{p})
		if want == "" {
			refused(t, err, sessions.CodeInvalidParams)
		} else if err != nil || got[0] != filepath.Join(real, want) {
			t.Errorf("%s: %q, %v", p, got, err)
		}
	}
}

// A send is checked before anything is kept.
func TestSendIsRefused(t *testing.T) {
	s := newRig(t).idle()
	for name, c := range map[string]struct {
		change func(*sessions.SendArgs)
		code   sessions.Code
	}{
		"no session":         {func(a *sessions.SendArgs) { a.SessionID = "" }, sessions.CodeInvalidParams},
		"no such session":    {func(a *sessions.SendArgs) { a.SessionID = sessions.NewID() }, sessions.CodeNotFound},
		"a long command id":  {func(a *sessions.SendArgs) { a.CommandID = strings.Repeat("x", 129) }, sessions.CodeInvalidParams},
		"no text":            {func(a *sessions.SendArgs) { a.Text = "\t" }, sessions.CodeInvalidParams},
		"too much text":      {func(a *sessions.SendArgs) { a.Text = strings.Repeat("x", sessions.MaxPromptBytes+1) }, sessions.CodeLimitExceeded},
		"a long model":       {func(a *sessions.SendArgs) { a.Model = strings.Repeat("x", maxLine+1) }, sessions.CodeLimitExceeded},
		"a long effort":      {func(a *sessions.SendArgs) { a.Effort = strings.Repeat("x", maxLine+1) }, sessions.CodeLimitExceeded},
		"a model with NUL":   {func(a *sessions.SendArgs) { a.Model = "m\x00" }, sessions.CodeInvalidParams},
		"a mode":             {func(a *sessions.SendArgs) { a.Mode = "yolo" }, sessions.CodeInvalidParams},
		"a deadline below 0": {func(a *sessions.SendArgs) { a.DeadlineSeconds = -1 }, sessions.CodeInvalidParams},
		"a deadline too far": {func(a *sessions.SendArgs) { a.DeadlineSeconds = maxDeadline + 1 }, sessions.CodeInvalidParams},
		"too many images":    {func(a *sessions.SendArgs) { a.Images = make([]string, maxImages+1) }, sessions.CodeLimitExceeded},
		"an image elsewhere": {func(a *sessions.SendArgs) { a.Images = []string{"/etc/passwd"} }, sessions.CodeInvalidParams},
		"patience":           {func(a *sessions.SendArgs) { a.WaitSeconds = ptr(99) }, sessions.CodeInvalidParams},
		"budget":             {func(a *sessions.SendArgs) { a.MaxChars = -1 }, sessions.CodeInvalidParams},
	} {
		if _, err := s.trySend("c", c.change); sessions.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	s.r.tx(noCommand(s.id, "c", t))
	s.wants(sessions.SessionIdle)
}

func TestWholeSeconds(t *testing.T) {
	for d, want := range map[config.Duration]int{0: 60, config.Never: 60, 1: 1, 1e9: 1, 1.6e9: 2, 90e9: 90} {
		if got := whole(d, 60e9); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
