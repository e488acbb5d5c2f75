package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// serveHTTP runs a host with its HTTP front end, and returns where that is.
func (w *world) serveHTTP(more ...string) (url string) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"host", "run", "--http", "127.0.0.1:0"}, more...)...)
	cmd.Env = w.env
	errs, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		var l struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Address != "" {
			url = "http://" + l.Address + "/mcp"
			break
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() { // what it says later is of no interest
		}
		_ = cmd.Wait()
	}()
	w.t.Cleanup(func() { // before the end of the world, which stops it
		w.baton("host", "stop")
		<-ended
	})
	if url == "" {
		w.t.Fatal("the host does not say where it serves")
	}
	return url
}

func (w *world) openHTTP(url, secret string) *front {
	w.t.Helper()
	c, err := mcpclient.NewStreamableHttpClient(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + secret}))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.initialized(c)
}

// TestHTTPBothWays: a client of an era with sessions gets news, is asked what an agent asks, and ends its session.
func TestHTTPBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := w.serveHTTP()
	var token struct{ Secret string }
	if err := json.Unmarshal([]byte(w.baton("token", "new", "here", "--folder", w.work, "--json")), &token); err != nil {
		t.Fatal(err)
	}
	header := map[string]string{"Authorization": "Bearer " + token.Secret}
	//lint:ignore SA1019 clients before 2026-07-28 do it so
	over, err := transport.NewStreamableHTTP(url, transport.WithHTTPHeaders(header), transport.WithContinuousListening(), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	c := mcpclient.NewClient(over, mcpclient.WithElicitationHandler(user(func(p mcp.ElicitationParams) mcp.ElicitationResponse {
		asked <- p.Message
		return mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}
	})))
	news := make(chan string, 1)
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == mcp.MethodNotificationResourceUpdated {
			select {
			case news <- fmt.Sprint(n.Params.AdditionalFields["uri"]):
			default:
			}
		}
	})
	f := w.initialized(c)
	s := w.create(f, "codexlike", nil)
	uri := "baton://sessions/" + s.SessionID
	//lint:ignore SA1019 clients before 2026-07-28 do it so
	if err := c.Subscribe(t.Context(), mcp.SubscribeRequest{Params: mcp.SubscribeParams{URI: uri}}); err != nil {
		t.Fatal(err)
	}
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[approve echo chosen > chosen.txt]", "wait_seconds": 50})
	if text := <-asked; !strings.Contains(text, "echo chosen") {
		t.Errorf("asked %q", text)
	}
	if got := <-news; got != uri {
		t.Errorf("news of %s", got)
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	status := func(method, session string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", header["Authorization"])
		q.Header.Set("Mcp-Session-Id", session)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if allow := a.Header.Get("Allow"); (allow == "GET, POST, DELETE") != (a.StatusCode == http.StatusMethodNotAllowed) {
			t.Errorf("%s: %s, allow %q", method, a.Status, allow)
		}
		return a.StatusCode
	}
	id := over.GetSessionId()
	for _, x := range []struct {
		method string
		status int
	}{{http.MethodPut, 405}, {http.MethodOptions, 405}, {http.MethodDelete, 204}, {http.MethodDelete, 404}} {
		if got := status(x.method, id); got != x.status {
			t.Errorf("%s: %d", x.method, got)
		}
	}
	f.close()
	http.DefaultClient.CloseIdleConnections()
}

// TestHTTP: a client over HTTP works in the folder of its token, and nobody else sees its sessions, nor it theirs.
func TestHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := w.serveHTTP()
	var token struct{ Secret, ID string }
	if err := json.Unmarshal([]byte(w.baton("token", "new", "here", "--folder", w.work, "--json")), &token); err != nil {
		t.Fatal(err)
	}
	local := w.open()
	defer local.close()
	theirs := w.create(local, "codexlike", nil)

	f := w.openHTTP(url, token.Secret)
	defer f.close()
	if len(f.tools()) != len(demoTools) {
		t.Errorf("tools %v", f.tools())
	}
	refused(f, sessions.CodeInvalidParams, "session_create", args{"runner": "codexlike", "cwd": w.path("home")})
	refused(f, sessions.CodeUnsupported, "session_create", args{"runner": "codexlike", "cwd": w.work, "sandbox": "danger-full-access"})
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	r := call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 4]", "wait_seconds": 50})
	if r.Text != directive.Words(4) {
		t.Errorf("%+v", r)
	}
	for who, c := range map[*front]string{f: theirs.SessionID, local: s.SessionID} {
		refused(who, sessions.CodeNotFound, "session_send", args{"session_id": c, "text": "x"})
		refused(who, sessions.CodeNotFound, "session_wait", args{"session_ids": []string{c}})
		if list := call[sessions.ListResult](who, "session_list", args{}).Sessions; len(list) != 1 || list[0].SessionID == c {
			t.Errorf("it sees %+v", list)
		}
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	if list := w.baton("token", "list"); !strings.Contains(list, token.ID) || strings.Contains(list, token.Secret) {
		t.Errorf("list: %s", list)
	}
	w.baton("token", "revoke", "here")
	q, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token.Secret)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token: %s", a.Status)
	}
}
