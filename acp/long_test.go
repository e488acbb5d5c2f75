package acp

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

// A line beyond the limit is told in the same words whichever protocol the agent speaks, and whoever asks.
func TestLongLine(t *testing.T) {
	code, action := wire.Lost(wire.ErrLineTooLong)
	for name, ask := range map[string]func(t *testing.T, c *wire.Conn) error{
		"open": func(t *testing.T, c *wire.Conn) error {
			a := New(c, newRecorder(t), Options{})
			_, err := a.Open(testContext(t), sessions.OpenParams{Cwd: "/work"})
			c.Close()
			<-a.Done()
			return err
		},
		"probe": func(t *testing.T, c *wire.Conn) error {
			_, err := prober{c}.call(testContext(t), methodInitialize, struct{}{}, patience)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			fromAgent, agentOut := io.Pipe()
			agentIn, toAgent := io.Pipe()
			c := wire.New(fromAgent, toAgent, wire.Options{MaxLine: 1000})
			done := make(chan struct{})
			go func() {
				defer close(done)
				var first [1]byte
				_, _ = agentIn.Read(first[:])
				go func() { _, _ = io.Copy(io.Discard, agentIn) }()
				_, _ = io.WriteString(agentOut, strings.Repeat("x", 5000)+"\n")
			}()
			err := ask(t, c)
			c.Close()
			agentOut.Close()
			agentIn.Close()
			<-done
			if e := sessions.AsError(err); e == nil || e.Code != code || e.Action != action || !errors.Is(err, wire.ErrLineTooLong) {
				t.Errorf("%v", err)
			}
		})
	}
}
