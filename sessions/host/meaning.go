package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// meaning is the digest of what a mutating call asks: its verb, its target and its content. Waits, size limits, guards,
// the key itself and the values of environment variables are no part of it, so that a retry with another patience, or
// from a process with a fresh token, is the same call. Omitted and default values are one.
func meaning(verb string, args any, drop ...string) string {
	var canonical []byte
	if a, ok := args.(sessions.SendArgs); ok {
		canonical = meantBySend(a)
	}
	if canonical == nil {
		canonical = meant(verb, args, drop...)
	}
	sum := sha256.Sum256(append([]byte(verb+"\n"), canonical...))
	return hex.EncodeToString(sum[:])
}

// meantBySend is meant for a send, which is written once instead of twice and read: its members are here in the order of
// their names. nil is left to meant: text that is no UTF-8 changes when it is read.
func meantBySend(a sessions.SendArgs) []byte {
	raw, err := json.Marshal(struct {
		CommandID       string   `json:"command_id,omitempty"`
		DeadlineSeconds int      `json:"deadline_seconds,omitempty"`
		Effort          string   `json:"effort,omitempty"`
		Images          []string `json:"images,omitempty"`
		Mode            string   `json:"mode,omitempty"`
		Model           string   `json:"model,omitempty"`
		SessionID       string   `json:"session_id"`
		Text            string   `json:"text"`
		WhenBusy        string   `json:"when_busy,omitempty"`
	}{a.CommandID, a.DeadlineSeconds, a.Effort, a.Images, a.Mode, a.Model, a.SessionID, a.Text, a.WhenBusy})
	if err != nil || bytes.Contains(raw, []byte(`\ufffd`)) {
		return nil
	}
	return raw
}

// meant is what the digest is of: the members that count, by their names.
func meant(verb string, args any, drop ...string) []byte {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("the arguments of %s cannot be encoded: %v", verb, err)) // they were decoded from JSON
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		panic(fmt.Sprintf("the arguments of %s are no object: %v", verb, err))
	}
	for _, name := range append([]string{"wait_seconds", "max_chars", "key", "lease_id", "generation"}, drop...) {
		delete(m, name)
	}
	for _, name := range []string{"env"} {
		if env, ok := m[name].(map[string]any); ok {
			m[name] = names(env)
		}
	}
	if servers, ok := m["mcp_servers"].([]any); ok {
		for _, s := range servers {
			if s, ok := s.(map[string]any); ok {
				for _, secret := range []string{"env", "headers"} {
					if v, ok := s[secret].(map[string]any); ok {
						s[secret] = names(v)
					}
				}
			}
		}
	}
	canonical, err := json.Marshal(m) // object keys are sorted
	if err != nil {
		panic(fmt.Sprintf("the arguments of %s cannot be encoded: %v", verb, err))
	}
	return canonical
}

func names(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
