package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// An agent whose link was ended for what it sent often leaves by itself at once, with a status that says nothing: the
// reason is still what it sent (FR-02).
func TestEndlessLineIsTheReason(t *testing.T) {
	w := begin(t, func(f *fake) {
		f.prompt = func(ctx context.Context, _ sessions.Prompt) error { return f.conn.Notify(ctx, "go", nil) }
	}, rung(sandbox.PIDNamespace))
	p := w.opened(shell("read x; /usr/bin/head -c 70000000 /dev/zero; exit 0"))
	p.prompt(2, "c")
	x, s := p.ended()
	if x == nil || !strings.Contains(x.Reason, "line too long: the limit is 67108864 bytes") || !slices.Equal(x.Running, []string{"c"}) {
		t.Errorf("exited %+v", x)
	}
	if s.Why != x.Reason {
		t.Errorf("stopped %+v", s)
	}
	w.gone()
}

// endOf is an agent of which nothing is known but how its link ended.
type endOf struct {
	sessions.Agent
	err error
}

func (e endOf) Err() error { return e.err }

func TestGivenUp(t *testing.T) {
	for want, err := range map[string]error{
		"the link to the agent was ended: the agent does not read its input; then ": wire.ErrWriteTimeout,
		"Codex broke its word; then ": sessions.Errorf(sessions.CodeAgentProtocol, "Codex broke its word"),
		"":                            errors.New("read |0: file already closed"), // what its end alone does to its pipes
	} {
		if got := (&agentProcess{agent: endOf{err: err}}).givenUp(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := (&agentProcess{agent: endOf{}}).givenUp(); got != "" {
		t.Errorf("without an error: %q", got)
	}
}
