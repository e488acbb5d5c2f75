package appserver

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/wire"
)

// A probe tells each kind of login, and the limits of an account that has some; what the provider does not tell is left
// out, and no part of an account that names a person is told.
func TestProbeTellsTheAccount(t *testing.T) {
	const limits = `{"rateLimits":{"planType":"plus","rateLimitReachedType":null,"primary":{"usedPercent":42,"resetsAt":1796060144,"windowDurationMins":300},"secondary":null}}`
	for _, x := range []struct {
		account, limits, login string
		kind                   any
		told                   any
	}{
		{account: `{"account":null,"requiresOpenaiAuth":false}`, login: "yes", kind: "provider"},
		{account: `{"account":null,"requiresOpenaiAuth":true}`, login: "no"},
		{account: `{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}`, login: "yes", kind: "apiKey"},
		{account: `{"account":{"type":"amazonBedrock"},"requiresOpenaiAuth":true}`, login: "yes", kind: "amazonBedrock"},
		{account: `{"account":{"type":"gcp"},"requiresOpenaiAuth":true}`, login: "yes", kind: "gcp"},
		{account: `{"account":{"type":"chatgpt","email":"ada@example.com","planType":"plus"},"requiresOpenaiAuth":true}`, limits: limits, login: "yes", kind: "chatgpt",
			told: map[string]any{"plan": "plus", "primary": map[string]any{"used_percent": 42, "resets_at": "2026-11-30T17:35:44Z", "window_minutes": int64(300)}}},
		{account: `{"account":{"type":"chatgpt","email":null,"planType":"plus"},"requiresOpenaiAuth":true}`, login: "yes", kind: "chatgpt"},
	} {
		conn, end := scripted(t, map[string]string{
			"initialize":              `{"userAgent":"baton/0.171.0 (Linux)"}`,
			"model/list":              `{"data":[],"nextCursor":null}`,
			"account/read":            x.account,
			"account/rateLimits/read": x.limits,
		})
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		p, err := Probe(ctx, conn, Options{})
		stop()
		end()
		if err != nil || p.Login != x.login || p.Capability["login_kind"] != x.kind {
			t.Errorf("%s: %s, %v, %v", x.account, p.Login, p.Capability, err)
		}
		var told any
		if got, ok := p.Capability["rate_limits"]; ok {
			told = got
		}
		if !reflect.DeepEqual(told, x.told) {
			t.Errorf("%s: limits %v, want %v", x.account, told, x.told)
		}
	}
}

// scripted is a link to a peer that answers each method with a result, and refuses those that have none.
func scripted(t *testing.T, results map[string]string) (*wire.Conn, func()) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer out.Close()
		for d := json.NewDecoder(theirs); ; {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if err := d.Decode(&m); err != nil {
				return
			}
			if len(m.ID) == 0 {
				continue
			}
			answer := `,"result":` + results[m.Method]
			if results[m.Method] == "" {
				answer = `,"error":{"code":-32600,"message":"not now"}`
			}
			if _, err := io.WriteString(out, `{"id":`+string(m.ID)+answer+"}\n"); err != nil {
				return
			}
		}
	}()
	return wire.New(back, ours, wire.Options{Generation: "g"}), func() { theirs.Close(); <-done }
}
