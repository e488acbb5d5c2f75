package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestQuestion: only what reads, and in which nothing but its own id and progress token stands beside its arguments.
func TestQuestion(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"session_list","arguments":{}}`:                                                   `"session_list"{}`,
		`{"name":"session_wait","arguments":{"a":1},"_meta":{"progressToken":7}}`:                  `"session_wait"{"a":1}`,
		`{"name":"session_list","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`: "",
		`{"name":"session_wait","arguments":{},"requestState":"x"}`:                                "",
		`{"name":"session_list","_meta":7}`:                                                        "",
		`{"name":"session_send","arguments":{}}`:                                                   "",
		`{"name":"session_read","arguments":{}}`:                                                   "",
	} {
		if got := question(message{method: "tools/call", params: json.RawMessage(params)}); got != want {
			t.Errorf("%s is %q, not %q", params, got, want)
		}
	}
	if got := question(message{method: "tools/list", params: json.RawMessage(`{"name":"session_list"}`)}); got != "" {
		t.Errorf("another method is %q", got)
	}
}

// TestMemoryIsBounded by number and by size, and forgets what is no longer true.
func TestMemoryIsBounded(t *testing.T) {
	var m memory
	always := func() bool { return true }
	for i := range 3 * maxRemembered {
		m.keep(strings.Repeat("q", i+1), make([]byte, maxRememberedBytes/20), always)
		if len(m.results) > maxRemembered || m.size > maxRememberedBytes {
			t.Fatalf("%d results of %d bytes", len(m.results), m.size)
		}
	}
	m.keep("large", make([]byte, maxRememberedBytes), always)
	if m.find("large") != nil {
		t.Error("a result beyond the bound is remembered")
	}
	m.keep("old", []byte("x"), func() bool { return false })
	if m.find("old") != nil || m.results["old"].still != nil {
		t.Error("what is not true any more is remembered")
	}
}
