package httpd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server whose endpoints say which token came through, and how much it sent.
type running struct {
	*Server
	tokens Tokens
	open   chan string // the tokens of requests that wait
	closed chan string // the tokens of endpoints that were closed
	t      *testing.T
}

func serve(t *testing.T, patience time.Duration) *running {
	t.Helper()
	store := Tokens{Path: filepath.Join(t.TempDir(), "state", "tokens.json")}
	open, closed := make(chan string, 10), make(chan string, 10)
	s, err := Listen(Options{Address: "127.0.0.1:0", Tokens: store, Log: zerolog.Nop(), Serve: func(_ sessions.API, token Token) http.Handler {
		return endpoint{token.Name, closed, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Wait") != "" {
				w.(http.Flusher).Flush()
				open <- token.Name
				<-r.Context().Done()
				return
			}
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %d", token.Name, n)
		}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.patience = patience
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &running{s, store, open, closed, t}
}

// endpoint is one that says when it is closed.
type endpoint struct {
	name   string
	closed chan<- string
	http.HandlerFunc
}

func (e endpoint) Close() error { e.closed <- e.name; return nil }

func (r *running) token(name string) string {
	r.t.Helper()
	_, secret, err := r.tokens.Make(name, "", []string{"/"})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

func (r *running) request(secret string, body io.Reader, change func(*http.Request)) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequest(http.MethodPost, "http://"+r.Addr()+Path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	if secret != "" {
		q.Header.Set("Authorization", "Bearer "+secret)
	}
	if change != nil {
		change(q)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body)
	return a, string(text)
}

// A token whose requests take all of its share is refused more, until one of them ends, and takes nothing of another's.
func TestShareOfAToken(t *testing.T) {
	r := serve(t, readPatience)
	one, two := r.token("one"), r.token("two")
	r.share = 1
	ctx, end := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+one)
	q.Header.Set("Wait", "1")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a, text := r.request(one, nil, nil); a.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "token") || a.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s %s", a.Status, text)
	}
	if a, text := r.request(two, nil, nil); a.StatusCode != 200 {
		t.Errorf("another token: %s %s", a.Status, text)
	}
	end()
	for a, text := r.request(one, nil, nil); a.StatusCode != 200; a, text = r.request(one, nil, nil) {
		if a.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("after its end: %s %s", a.Status, text)
		}
	}
}

func TestWhatComesThrough(t *testing.T) {
	r := serve(t, readPatience)
	one, two := r.token("one"), r.token("two")
	_, port, _ := net.SplitHostPort(r.Addr())
	for name, tt := range map[string]struct {
		secret string
		body   io.Reader
		change func(*http.Request)
		status int
		says   string
	}{
		"a token":                  {one, strings.NewReader("12345"), nil, 200, "one 5"},
		"another token":            {two, strings.NewReader(""), nil, 200, "two 0"},
		"localhost":                {one, nil, func(q *http.Request) { q.Host = "LOCALHOST:" + port }, 200, "one"},
		"its own page":             {one, nil, func(q *http.Request) { q.Header.Set("Origin", "http://localhost:"+port) }, 200, "one"},
		"no token":                 {"", nil, nil, 401, "token"},
		"a wrong token":            {one + "x", nil, nil, 401, "token"},
		"another scheme":           {"", nil, func(q *http.Request) { q.SetBasicAuth("x", one) }, 401, "token"},
		"a hash is no secret":      {hashOf(one), nil, nil, 401, "token"},
		"another name":             {one, nil, func(q *http.Request) { q.Host = "evil.example:" + port }, 403, "name"},
		"a name without its port":  {one, nil, func(q *http.Request) { q.Host = "localhost" }, 403, "name"},
		"a page":                   {one, nil, func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") }, 403, "origins"},
		"a page without an origin": {one, nil, func(q *http.Request) { q.Header.Set("Origin", "null") }, 403, "origins"},
		"another path":             {one, nil, func(q *http.Request) { q.URL.Path = "/other" }, 404, Path},
		"a large body":             {one, io.LimitReader(endless{}, maxBody), nil, 200, fmt.Sprint("one ", maxBody)},
		"a body that is too large": {one, io.LimitReader(endless{}, 100<<20), nil, 413, "bytes"},
		"one that says so":         {one, nil, func(q *http.Request) { q.Body, q.ContentLength = io.NopCloser(strings.NewReader("x")), 100<<20 }, 413, "bytes"},
	} {
		if name == "one that says so" { // the client would not send less than it says
			conn, err := net.Dial("tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", Path, r.Addr(), one, 100<<20)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.Contains(line, "413") {
				t.Errorf("%s: %q, %v", name, line, err)
			}
			conn.Close()
			continue
		}
		a, text := r.request(tt.secret, tt.body, tt.change)
		if a.StatusCode != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %.200s", name, a.StatusCode, text)
		}
		if tt.status == 401 && a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", name)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestSlowClients hold a connection for the patience of the server, and nothing else.
func TestSlowClients(t *testing.T) {
	r := serve(t, time.Second)
	secret := r.token("one")
	conns := map[string]net.Conn{}
	for name, text := range map[string]string{
		"headers": "POST " + Path + " HTTP/1.1\r\nHost: " + r.Addr() + "\r\nX-Slow: ",
		"body":    "POST " + Path + " HTTP/1.1\r\nHost: " + r.Addr() + "\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 10\r\n\r\n{",
	} {
		conn, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		conns[name] = conn
	}
	for name, conn := range conns {
		answer, err := io.ReadAll(conn) // ends when the server ends it
		if err != nil || strings.Contains(string(answer), "200 OK") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		conn.Close()
	}
	if a, text := r.request(secret, strings.NewReader("12"), nil); a.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", a.StatusCode, text)
	}
}

func TestTokens(t *testing.T) {
	r := serve(t, readPatience)
	secret := r.token("one")
	b, err := os.ReadFile(r.tokens.Path)
	if err != nil || strings.Contains(string(b), secret) || strings.Contains(string(b), strings.TrimPrefix(secret, secretPrefix)) {
		t.Errorf("the secret is in the file: %v", err)
	}
	if info, err := os.Stat(r.tokens.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, _, err := r.tokens.Make("one", "", []string{"/"}); err == nil {
		t.Error("a name twice")
	}
	for _, folders := range [][]string{nil, {"relative"}, {"/no/such/folder"}, {r.tokens.Path}} {
		if _, _, err := r.tokens.Make("x", "", folders); sessions.CodeOf(err) != sessions.CodeInvalidParams {
			t.Errorf("%q: %v", folders, err)
		}
	}
	if _, _, err := r.tokens.Make("x", "local", []string{t.TempDir()}); sessions.CodeOf(err) != sessions.CodeInvalidParams {
		t.Errorf("bound to folders, with another's principal: %v", err)
	}
	// A stream that is open when its token is revoked ends, and so does everything after.
	ended := make(chan string)
	go func() {
		a, _ := r.request(secret, nil, func(q *http.Request) { q.Header.Set("Wait", "1") })
		ended <- a.Status
	}()
	<-r.open
	if gone, err := r.tokens.Revoke("one"); err != nil || gone.Name != "one" {
		t.Errorf("%+v, %v", gone, err)
	}
	<-ended
	if gone := <-r.closed; gone != "one" {
		t.Errorf("closed %s", gone)
	}
	if a, text := r.request(secret, nil, nil); a.StatusCode != 401 {
		t.Errorf("revoked: %d %s", a.StatusCode, text)
	}
	// So does what waits without a connection, when somebody comes with what is no token any more.
	next, other := r.token("two"), r.token("three")
	for _, s := range []string{next, other} {
		if a, text := r.request(s, nil, nil); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, text)
		}
	}
	if _, err := r.tokens.Revoke("two"); err != nil {
		t.Error(err)
	}
	if a, text := r.request(next, nil, nil); a.StatusCode != 401 {
		t.Errorf("revoked: %d %s", a.StatusCode, text)
	}
	if gone := <-r.closed; gone != "two" || len(r.closed) > 0 {
		t.Errorf("closed %s", gone)
	}
	if _, err := r.tokens.Revoke("one"); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Error(err)
	}
	if err := os.WriteFile(r.tokens.Path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secret, other} {
		if a, text := r.request(s, nil, nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("damaged: %d %s", a.StatusCode, text)
		}
	}
	r.unreadable = 0
	if a, text := r.request(other, nil, nil); a.StatusCode != 401 || <-r.closed != "three" {
		t.Errorf("damaged for long: %d %s", a.StatusCode, text)
	}
}

// lines is a log that a test waits at.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// While the tokens cannot be read nobody new is let in, and what is open goes on, for a while: no longer than that, and no
// longer than its token is found to be revoked.
func TestTokensThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(path string) error
		long  bool // for longer than open requests are let go on
		gone  bool // and the token is revoked meanwhile
	}{
		"removed and put back":   {spoil: os.Remove},
		"removed for good":       {spoil: os.Remove, long: true},
		"no file for a moment":   {spoil: func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
		"half a file":            {spoil: func(path string) error { return os.Truncate(path, 10) }},
		"revoked in that moment": {spoil: os.Remove, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, readPatience)
			log := make(lines, 100)
			r.o.Log, r.recheck, r.unreadable = zerolog.New(log), time.Millisecond, time.Hour
			secret := r.token("one")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				r.request(secret, nil, func(q *http.Request) { q.Header.Set("Wait", "1") })
			}()
			<-r.open
			before, err := os.ReadFile(r.tokens.Path)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(r.tokens.Path); err != nil {
				t.Fatal(err)
			}
			for range 5 { // looks that failed
				<-log
			}
			if a, text := r.request(secret, nil, nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
				t.Errorf("a new request: %d %s", a.StatusCode, text)
			}
			if a, text := r.request("", nil, nil); a.StatusCode != 503 {
				t.Errorf("without a token: %d %s", a.StatusCode, text)
			}
			select {
			case <-ended:
				t.Fatal("an open request ended")
			case <-r.closed:
				t.Fatal("an endpoint was closed")
			default:
			}
			switch {
			case tt.long:
				r.mu.Lock()
				r.known = time.Now().Add(-2 * time.Hour)
				r.mu.Unlock()
			case tt.gone:
				before = []byte("[]")
				fallthrough
			default:
				if err := errors.Join(os.RemoveAll(r.tokens.Path), os.WriteFile(r.tokens.Path+".new", before, 0o600), os.Rename(r.tokens.Path+".new", r.tokens.Path)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.long || tt.gone {
				<-ended
				if gone := <-r.closed; gone != "one" {
					t.Errorf("closed %s", gone)
				}
				return
			}
			if a, text := r.request(secret, nil, nil); a.StatusCode != 200 {
				t.Errorf("afterwards: %d %s", a.StatusCode, text)
			}
			if _, err := r.tokens.Revoke("one"); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}

// What the bodies of open requests take is bounded: for a token, and for all; what is refused is told to come again, and
// what ends makes room.
func TestRoomForBodies(t *testing.T) {
	const body = 1 << 20
	for name, tt := range map[string]struct {
		all, share int64
		tokens     int
		status     int
	}{
		"of a token": {1 << 40, 4 * body, 1, http.StatusTooManyRequests},
		"of all":     {4 * body, 1 << 40, 3, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, readPatience)
			r.bodies = newBodies(tt.all, tt.share)
			var secrets []string
			for i := range tt.tokens {
				secrets = append(secrets, r.token(fmt.Sprint(i)))
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			open := 0
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range 30 {
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.Addr()+Path, io.LimitReader(endless{}, body-1))
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Authorization", "Bearer "+secrets[i%len(secrets)])
				q.Header.Set("Wait", "1")
				a, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Body.Close()
				if a.StatusCode == 200 {
					<-r.open
					open++
				} else if a.StatusCode != tt.status || a.Header.Get("Retry-After") == "" {
					t.Fatalf("%d of %d: %s", open, i, a.Status)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); open != 4 || grown > 8*body {
				t.Errorf("%d requests are open, %d bytes are held", open, grown)
			}
			end()
			for {
				a, text := r.request(secrets[0], strings.NewReader("x"), nil)
				if a.StatusCode == 200 {
					break
				}
				if a.StatusCode != tt.status {
					t.Fatalf("after their end: %s %s", a.Status, text)
				}
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, o := range []Options{{Address: "8765"}, {Address: "0.0.0.0:0"}, {Address: ":0"}, {Address: "0.0.0.0:0", Beyond: true}, {Address: "127.0.0.1:0", CertFile: "x"}, {Address: "127.0.0.1:0", CertFile: "/no/cert", KeyFile: "/no/key"}} {
		if s, err := Listen(o); err == nil || sessions.AsError(err).Action == "" {
			t.Errorf("%+v: %v", o, err)
			if s != nil {
				s.listener.Close()
			}
		}
	}
}

func TestFence(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"in/deep", "in-evil", "out"} {
		if err := os.MkdirAll(filepath.Join(real, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(real, "out"), filepath.Join(real, "in", "link")); err != nil {
		t.Fatal(err)
	}
	f := fence{token: Token{Folders: []string{filepath.Join(real, "in")}}}
	for path, ok := range map[string]bool{"in": true, "in/deep": true, "in/deep/..": true, "in-evil": false, "out": false, "in/link": false, "in/../out": false, "in/missing": false} {
		if _, err := f.inside("cwd", real+"/"+path); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	for name, s := range map[string]sessions.Settings{
		"sandbox": {Sandbox: sessions.SandboxFullAccess}, "auto_answer": {AutoAnswer: "approve-all"}, "mcp_servers": {MCPServers: []sessions.MCPServer{{Name: "x"}}},
		"runner_options": {RunnerOptions: map[string]any{"a": 1}}, "env": {Env: map[string]string{"A": "b"}}, "env_unset": {EnvUnset: []string{"A"}}, "writable_roots": {WritableRoots: []string{real + "/out"}}, "profile": {Profile: "x"},
	} {
		if _, err := f.Create(t.Context(), sessions.Caller{}, sessions.CreateArgs{Cwd: real + "/in", Settings: s}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.Resume(t.Context(), sessions.Caller{}, sessions.ResumeArgs{Settings: s}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("resume with %s: %v", name, err)
		}
	}

	// What a session is resumed in is looked at again: a folder may have become a link.
	held := &holder{cwd: filepath.Join(real, "in", "deep")}
	f.API = held
	if _, err := f.Create(t.Context(), sessions.Caller{}, sessions.CreateArgs{Cwd: real + "/in/../in/deep"}); err != nil || held.created != held.cwd || !slices.Equal(held.folders, f.token.Folders) {
		t.Errorf("created in %q, %v", held.created, err)
	}
	held.folders = nil
	if _, err := f.Resume(t.Context(), sessions.Caller{}, sessions.ResumeArgs{SessionID: "s"}); err != nil || held.resumed != 1 || !slices.Equal(held.folders, f.token.Folders) {
		t.Errorf("resumed %d times, %v", held.resumed, err)
	}
	if err := os.Remove(held.cwd); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(real, "out"), held.cwd); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resume(t.Context(), sessions.Caller{}, sessions.ResumeArgs{SessionID: "s"}); sessions.CodeOf(err) != sessions.CodeInvalidParams || held.resumed != 1 {
		t.Errorf("resumed %d times in a link, %v", held.resumed, err)
	}
}

// holder holds one session.
type holder struct {
	sessions.API
	cwd, created string
	resumed      int
	folders      []string // that the caller was bound to at last
}

func (h *holder) Create(_ context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	h.created, h.folders = a.Cwd, who.Folders
	return sessions.CreateResult{}, nil
}

func (h *holder) Wait(context.Context, sessions.Caller, sessions.WaitArgs) (sessions.WaitResult, error) {
	return sessions.WaitResult{Sessions: []sessions.Waited{{Session: sessions.Session{Cwd: h.cwd}}}}, nil
}

func (h *holder) Resume(_ context.Context, who sessions.Caller, _ sessions.ResumeArgs) (sessions.ResumeResult, error) {
	h.resumed++
	h.folders = who.Folders
	return sessions.ResumeResult{}, nil
}
