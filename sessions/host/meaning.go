package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// meaning is the digest of what a mutating call asks: its verb, its target and its content. Waits, size limits, guards,
// the key itself and the values of environment variables are no part of it, so that a retry with another patience, or
// from a process with a fresh token, is the same call. Omitted and default values are one.
func meaning(verb string, args any, drop ...string) string {
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
	sum := sha256.Sum256(append([]byte(verb+"\n"), canonical...))
	return hex.EncodeToString(sum[:])
}

func names(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
