package appserver

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// A line beyond the limit is told in the same words whichever protocol the agent speaks.
func TestLongLine(t *testing.T) {
	fromAgent, agentOut := io.Pipe()
	agentIn, toAgent := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var first [1]byte
		_, _ = agentIn.Read(first[:])
		go func() { _, _ = io.Copy(io.Discard, agentIn) }()
		_, _ = io.WriteString(agentOut, strings.Repeat("x", 5000)+"\n")
	}()
	w := newWatch(t)
	a := New(wire.New(fromAgent, toAgent, wire.Options{MaxLine: 1000}), w, Options{})
	_, err := a.Open(w.context(), sessions.OpenParams{Cwd: "/work"})
	agentOut.Close()
	agentIn.Close()
	<-a.Done()
	<-done
	code, action := wire.Lost(wire.ErrLineTooLong)
	if e := sessions.AsError(err); e == nil || e.Code != code || e.Action != action || !errors.Is(err, wire.ErrLineTooLong) {
		t.Errorf("%v", err)
	}
}
