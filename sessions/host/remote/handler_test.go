package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// Every verb carries its arguments, its caller and its result unchanged.
func TestVerbs(t *testing.T) {
	ctx := context.Background()
	at := time.Date(2025, 7, 1, 12, 0, 0, 123456789, time.UTC)
	one := sessions.Session{SessionID: "s", State: sessions.SessionIdle, Requests: []sessions.Request{}, Queued: []sessions.Command{}, CreatedAt: at}
	guard := sessions.Guard{LeaseID: "l", Generation: "g"}
	for _, c := range []struct {
		verb   string
		args   any
		result any
		call   func(sessions.API) (any, error)
	}{
		{verbRunnerList, sessions.RunnerListArgs{Refresh: true}, sessions.RunnerListResult{Runners: []sessions.Runner{{Name: "codex"}}},
			func(a sessions.API) (any, error) {
				return a.RunnerList(ctx, anybody, sessions.RunnerListArgs{Refresh: true})
			}},
		{verbCreate, sessions.CreateArgs{Runner: "codex", SessionID: "s", Settings: sessions.Settings{Model: "m", Env: map[string]string{"A": "b"}}, WaitSeconds: seconds(3)},
			sessions.CreateResult{Session: one, Command: &sessions.Command{CommandID: "c"}},
			func(a sessions.API) (any, error) {
				return a.Create(ctx, anybody, sessions.CreateArgs{Runner: "codex", SessionID: "s", Settings: sessions.Settings{Model: "m", Env: map[string]string{"A": "b"}}, WaitSeconds: seconds(3)})
			}},
		{verbSend, sessions.SendArgs{SessionID: "s", CommandID: "c", Text: "<&>\u2028 \x00", Guard: guard},
			sessions.SendResult{Session: one, Text: "done", Usage: &sessions.Usage{Input: 1 << 60}},
			func(a sessions.API) (any, error) {
				return a.Send(ctx, anybody, sessions.SendArgs{SessionID: "s", CommandID: "c", Text: "<&>\u2028 \x00", Guard: guard})
			}},
		{verbWait, sessions.WaitArgs{SessionIDs: []string{"s"}, After: map[string]string{"s": "x"}, WaitSeconds: seconds(0)},
			sessions.WaitResult{Sessions: []sessions.Waited{{Session: one, Cursor: "y"}}, TimedOut: true},
			func(a sessions.API) (any, error) {
				return a.Wait(ctx, anybody, sessions.WaitArgs{SessionIDs: []string{"s"}, After: map[string]string{"s": "x"}, WaitSeconds: seconds(0)})
			}},
		{verbRead, sessions.ReadArgs{SessionID: "s", Kinds: []sessions.EventKind{sessions.EventText}},
			sessions.ReadResult{Events: []sessions.Event{{Seq: 1, Kind: sessions.EventText, Raw: json.RawMessage(`{"a":1.0}`)}}, HasMore: true},
			func(a sessions.API) (any, error) {
				return a.Read(ctx, anybody, sessions.ReadArgs{SessionID: "s", Kinds: []sessions.EventKind{sessions.EventText}})
			}},
		{verbRespond, sessions.RespondArgs{SessionID: "s", RequestID: "r", Form: json.RawMessage(`{"n":1.50}`), Key: "k"},
			sessions.RespondResult{Session: one, Request: sessions.Request{RequestID: "r"}},
			func(a sessions.API) (any, error) {
				return a.Respond(ctx, anybody, sessions.RespondArgs{SessionID: "s", RequestID: "r", Form: json.RawMessage(`{"n":1.50}`), Key: "k"})
			}},
		{verbCancel, sessions.CancelArgs{SessionID: "s", Key: "k", Guard: guard}, sessions.CancelResult{Fenced: true},
			func(a sessions.API) (any, error) {
				return a.Cancel(ctx, anybody, sessions.CancelArgs{SessionID: "s", Key: "k", Guard: guard})
			}},
		{verbClose, sessions.CloseArgs{SessionID: "s", Delete: true, Key: "k"}, sessions.CloseResult{Session: one, Stopped: "confirmed"},
			func(a sessions.API) (any, error) {
				return a.Close(ctx, anybody, sessions.CloseArgs{SessionID: "s", Delete: true, Key: "k"})
			}},
		{verbResume, sessions.ResumeArgs{SessionID: "s", RunQueue: true, Key: "k"}, sessions.ResumeResult{Session: one, Settled: []sessions.Command{{CommandID: "c"}}},
			func(a sessions.API) (any, error) {
				return a.Resume(ctx, anybody, sessions.ResumeArgs{SessionID: "s", RunQueue: true, Key: "k"})
			}},
		{verbList, sessions.ListArgs{Cwd: "/w", All: true}, sessions.ListResult{Sessions: []sessions.Session{one}, Cursor: "z"},
			func(a sessions.API) (any, error) {
				return a.List(ctx, anybody, sessions.ListArgs{Cwd: "/w", All: true})
			}},
	} {
		t.Run(c.verb, func(t *testing.T) {
			api := &fake{answer: func(context.Context, string, any) (any, error) { return c.result, nil }}
			path := socket(t)
			run(t, path, Handler(api, HandlerOptions{}))
			got, err := c.call(New(Options{Socket: path}))
			if err != nil || !reflect.DeepEqual(got, c.result) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.result)
			}
			who := anybody
			switch c.verb {
			case verbSend, verbWait, verbRead, verbRespond, verbCancel, verbList: // no environment for what launches nothing
				who.Env = nil
			}
			if calls := api.taken(); len(calls) != 1 || !reflect.DeepEqual(calls[0], taken{c.verb, who, c.args}) {
				t.Errorf("the host was given %+v", calls)
			}
		})
	}
}

// A page that is JSON already goes out as it is; its errors are those of any call.
func TestReadHandsOn(t *testing.T) {
	path := socket(t)
	var given sessions.ReadArgs
	run(t, path, Handler(&fake{}, HandlerOptions{Read: func(_ context.Context, _ sessions.Caller, a sessions.ReadArgs) ([]byte, error) {
		if given = a; a.SessionID == "" {
			return nil, sessions.Errorf(sessions.CodeNotFound, "no such session").Do("name one")
		}
		return []byte(`{"events":[{"kind":"text","seq":3,"text":"a"}],"cursor":"c","has_more":true}`), nil
	}}))
	c := New(Options{Socket: path})
	a := sessions.ReadArgs{SessionID: "s", Limit: 4}
	got, err := c.Read(context.Background(), anybody, a)
	want := sessions.ReadResult{Events: []sessions.Event{{Kind: sessions.EventText, Seq: 3, Text: "a"}}, Cursor: "c", HasMore: true}
	if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(given, a) {
		t.Errorf("%+v, %v; the host was given %+v", got, err, given)
	}
	if _, err := c.Read(context.Background(), anybody, sessions.ReadArgs{}); sessions.CodeOf(err) != sessions.CodeNotFound {
		t.Errorf("%v", err)
	}
}

func TestErrorsStayWhole(t *testing.T) {
	whole := sessions.Errorf(sessions.CodeSelectionUnconfirmed, "model %q was asked", "m").Do("ask for another").
		With("differences", []any{map[string]any{"name": "model", "asked": "m"}}).With("n", 2.0)
	for _, c := range []struct {
		name string
		err  error
		want *sessions.Error
	}{
		{"of the table", whole, &sessions.Error{Code: whole.Code, Message: whole.Message, Action: whole.Action, Details: whole.Details}},
		{"wrapped", errors.Join(whole), &sessions.Error{Code: whole.Code, Message: whole.Message, Action: whole.Action, Details: whole.Details}},
		{"outside of the table", errors.New("no luck"), &sessions.Error{Code: sessions.CodeInternal, Message: "no luck", Action: sessions.CodeInternal.Remedy()}},
		{"with what no JSON holds", whole.With("f", func() {}), &sessions.Error{Code: whole.Code, Message: whole.Message, Action: whole.Action}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := socket(t)
			api := &fake{answer: func(context.Context, string, any) (any, error) { return nil, c.err }}
			run(t, path, Handler(api, HandlerOptions{}))
			_, err := New(Options{Socket: path}).Send(context.Background(), anybody, sessions.SendArgs{})
			if got := sessions.AsError(err); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v\nwant %#v", got, c.want)
			}
			if len(api.taken()) != 1 {
				t.Errorf("it was called %d times", len(api.taken()))
			}
		})
	}
}

func TestHandlerRefuses(t *testing.T) {
	const secret = "secret"
	good := http.Header{protocolHeader: {"1"}, "Authorization": {"Bearer " + secret}}
	without := func(name string, instead ...string) http.Header {
		h := good.Clone()
		if h.Del(name); instead != nil {
			h[name] = instead
		}
		return h
	}
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		body               string
		status             int
		code               sessions.Code
		says               string
	}{
		{"unknown argument", "POST", "/v1/send", good, `{"who":{},"args":{"session_id":"s","lease":"x"}}`, 400, sessions.CodeInvalidParams, `"lease"`},
		{"unknown member", "POST", "/v1/send", good, `{"who":{},"arg":{}}`, 400, sessions.CodeInvalidParams, `"arg"`},
		{"wrong type", "POST", "/v1/send", good, `{"args":{"text":3}}`, 400, sessions.CodeInvalidParams, "text"},
		{"half a body", "POST", "/v1/send", good, `{"args":`, 400, sessions.CodeInvalidParams, "cannot be decoded"},
		{"no body", "POST", "/v1/send", good, ``, 400, sessions.CodeInvalidParams, "cannot be decoded"},
		{"two bodies", "POST", "/v1/send", good, `{}{}`, 400, sessions.CodeInvalidParams, "more than one"},
		{"too large", "POST", "/v1/send", good, `{"args":{"text":"` + strings.Repeat("x", MaxBody) + `"}}`, 413, sessions.CodeLimitExceeded, "8388608"},
		{"unknown verb", "POST", "/v1/sing", good, `{}`, 409, sessions.CodeUnsupported, "/v1/sing"},
		{"other method", "GET", "/v1/send", good, ``, 409, sessions.CodeUnsupported, "GET /v1/send"},
		{"no token", "POST", "/v1/send", without("Authorization"), `{}`, 401, sessions.CodeInvalidParams, "token"},
		{"other token", "POST", "/v1/send", without("Authorization", "Bearer secre"), `{}`, 401, sessions.CodeInvalidParams, "token"},
		{"status without token", "GET", "/v1/status", without("Authorization"), ``, 401, sessions.CodeInvalidParams, "token"},
		{"stop without token", "POST", "/v1/stop", without("Authorization"), ``, 401, sessions.CodeInvalidParams, "token"},
		{"no stop", "POST", "/v1/stop", good, ``, 409, sessions.CodeUnsupported, "cannot be stopped"},
		{"other protocol", "POST", "/v1/send", without(protocolHeader, "2"), `{}`, 426, sessions.CodeUnsupported, `protocol "2", and the running host speaks 1`},
		{"no protocol", "POST", "/v1/send", without(protocolHeader), `{}`, 426, sessions.CodeUnsupported, `protocol ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := &fake{}
			path := socket(t)
			run(t, path, Handler(api, HandlerOptions{Token: secret}))
			status, body := raw(t, path, c.method, c.path, c.header, c.body)
			var f failure
			if err := json.Unmarshal(body, &f); err != nil || f.Error == nil {
				t.Fatalf("answer %s", body)
			}
			if status != c.status || f.Error.Code != c.code || !strings.Contains(f.Error.Message, c.says) || f.Protocol != Protocol {
				t.Errorf("got %d %+v %d\nwant %d %s %q", status, f.Error, f.Protocol, c.status, c.code, c.says)
			}
			if calls := api.taken(); len(calls) != 0 {
				t.Errorf("it was called: %+v", calls)
			}
		})
	}
}

func TestLargestPromptFits(t *testing.T) {
	path := socket(t)
	api := &fake{}
	run(t, path, Handler(api, HandlerOptions{}))
	text := strings.Repeat("\x01", sessions.MaxPromptBytes) // six bytes each in JSON
	if _, err := New(Options{Socket: path}).Send(context.Background(), anybody, sessions.SendArgs{Text: text}); err != nil {
		t.Fatal(err)
	}
	if got := api.taken()[0].args.(sessions.SendArgs).Text; got != text {
		t.Errorf("%d bytes arrived", len(got))
	}
}

func TestStatusAndStop(t *testing.T) {
	path := socket(t)
	stopped := make(chan struct{})
	run(t, path, Handler(&fake{}, HandlerOptions{
		Status: func() Status { return Status{Version: "v1", PID: 7, Epoch: 3, State: "/s", Live: 2} },
		Stop: func(context.Context) (Stopped, error) {
			close(stopped)
			return Stopped{Status: Status{PID: 7}, Keeps: []string{"a", "b"}}, nil
		},
	}))
	c := New(Options{Socket: path})
	if s, err := c.Status(context.Background()); err != nil || !reflect.DeepEqual(s, Status{Version: "v1", Protocol: Protocol, PID: 7, Epoch: 3, State: "/s", Live: 2}) {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := c.Stop(context.Background()); err != nil || s.PID != 7 || len(s.Keeps) != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	<-stopped
}

// A broken connection would have the client make the call again, and the host panic again.
func TestPanicIsAnswered(t *testing.T) {
	path := socket(t)
	api := &fake{answer: func(_ context.Context, verb string, _ any) (any, error) {
		if verb == verbSend {
			panic("oh no")
		}
		return nil, nil
	}}
	run(t, path, Handler(api, HandlerOptions{}))
	c := New(Options{Socket: path})
	_, err := c.Send(context.Background(), anybody, sessions.SendArgs{})
	if sessions.CodeOf(err) != sessions.CodeInternal || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("got %v", err)
	}
	if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); err != nil {
		t.Errorf("after it: %v", err)
	}
	if n := len(api.taken()); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestClientThatGoesAwayEndsItsCall(t *testing.T) {
	path := socket(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	api := &fake{answer: func(ctx context.Context, _ string, _ any) (any, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	run(t, path, Handler(api, HandlerOptions{}))
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		_, err := New(Options{Socket: path}).Wait(ctx, anybody, sessions.WaitArgs{})
		result <- err
	}()
	<-began
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the host's context: %v", err)
	}
	if err := <-result; sessions.CodeOf(err) != sessions.CodeTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if n := len(api.taken()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// raw makes one request by hand.
func raw(t *testing.T, path, method, url string, header http.Header, body string) (int, []byte) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return local.Dial(ctx, path)
	}}
	r, err := http.NewRequest(method, "http://baton"+url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, b
}
