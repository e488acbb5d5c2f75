package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// TestI09_CodexCancelIsTrue cancels turns at random moments, each of which runs a command with a child that has left its
// process group and session: 100 with BATON_FULL=1, else 5. What Baton says of each is what Codex's own record says, what
// the provider saw and what the process table shows; none is unknown, and nothing is left.
func TestI09_CodexCancelIsTrue(t *testing.T) {
	codexBinary(t)
	n, seed := 5, codexSeed(t)
	if os.Getenv("BATON_FULL") != "" {
		n = 100
	}
	x := newCodexRun(t, codexBinary(t))
	defer x.f.close()
	random := rand.New(rand.NewPCG(seed, 2))
	var ids []sessions.Session
	for _, sandbox := range []string{sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess} {
		ids = append(ids, x.create(args{"approval_policy": "never", "sandbox": sandbox}))
	}
	states, agree := map[sessions.CommandState]int{}, 0
	said := map[string]sessions.Command{}
	for i := range n {
		s, command := ids[i%len(ids)], fmt.Sprintf("cancel-%d", i)
		x.begin(s.SessionID, command, fmt.Sprintf("[sleep 30] [shell setsid sleep 671 & touch begun-%d; sleep 0.2; sleep 672; touch survived-%d] [say 30 8 5]", i, i))
		if i%3 == 1 { // while the command runs, for certain
			await(t, "the command", func() bool { return exists(x.here(fmt.Sprintf("begun-%d", i))) })
		}
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // the moment is the point
		c := x.cancel(s.SessionID, command)
		c.Session = s.SessionID
		if !c.State.Terminal() {
			e := x.until(s.SessionID, "the end of "+command, func(e sessions.Event) bool {
				return e.Kind == sessions.EventCommandSettled && e.Command == command
			})
			c.State, c.Outcome = e.Settled.State, e.Settled.Outcome
		}
		if left := x.find("sleep 67"); len(left) > 0 {
			t.Errorf("%s is %s (%s), and left: %v", command, c.State, c.Outcome, left)
		}
		states[c.State]++
		said[command] = c
	}
	rounds := len(x.mock.Requests())
	for _, s := range ids {
		x.sound(s.SessionID)
		x.closed(s)
		record := x.record(s.NativeID)
		for command, c := range said {
			if c.Session != s.SessionID {
				continue
			}
			real, ran := record[command]
			switch {
			case c.State == sessions.CommandInterrupted && (real == "interrupted" || !ran),
				c.State == sessions.CommandCancelled && !ran,
				c.State == sessions.CommandCompleted && real == "completed":
				agree++
			default:
				t.Errorf("%s is %s (%s), and Codex has it as %q", command, c.State, c.Outcome, real)
			}
		}
	}
	for i := range n {
		x.missing(fmt.Sprintf("survived-%d", i))
	}
	if more := len(x.mock.Requests()); more != rounds {
		t.Errorf("the provider was asked %d times after the last cancel", more-rounds)
	}
	t.Logf("BATON_SEED=%d: %d cancels, %d as in Codex's record, by state %v, %d processes left", seed, n, agree, states, len(x.find("sleep 67")))
	if agree != n || states[sessions.CommandUnknown] != 0 || states[sessions.CommandInterrupted] < n*95/100 {
		t.Errorf("%d of %d agree; %v", agree, n, states)
	}
}

// record is how Codex has the turns of a conversation, by the command that each was: read by a Codex of its own, when no
// other has the conversation open.
func (x *codexRun) record(thread string) map[string]string {
	x.t.Helper()
	r := x.raw()
	defer r.end()
	var got struct {
		Thread struct {
			Turns []struct {
				Status string
				Items  []struct{ Type, ClientID string }
			}
		}
	}
	r.call("thread/read", args{"threadId": thread, "includeTurns": true}, &got)
	turns := map[string]string{}
	for _, turn := range got.Thread.Turns {
		for _, item := range turn.Items {
			if item.Type == "userMessage" && item.ClientID != "" {
				turns[item.ClientID] = turn.Status
			}
		}
	}
	return turns
}

// rawCodex is a Codex that a test drives by hand.
type rawCodex struct {
	x   *codexRun
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	n   int
}

func (x *codexRun) raw() *rawCodex {
	x.t.Helper()
	r := &rawCodex{x: x, cmd: exec.Command(x.binary, "app-server")}
	r.cmd.Dir, r.cmd.Env = x.work, x.env
	in, err := r.cmd.StdinPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	r.in, r.out = in, json.NewDecoder(out)
	r.call("initialize", args{"clientInfo": args{"name": "other", "version": "1"}, "capabilities": args{"experimentalApi": true}}, nil)
	r.write(args{"method": "initialized"})
	return r
}

func (r *rawCodex) write(m args) {
	r.x.t.Helper()
	if err := json.NewEncoder(r.in).Encode(m); err != nil {
		r.end()
		r.x.t.Fatal(err)
	}
}

func (r *rawCodex) call(method string, params args, result any) {
	r.x.t.Helper()
	r.n++
	r.write(args{"id": r.n, "method": method, "params": params})
	for {
		var m struct {
			ID     int
			Method string
			Error  json.RawMessage
			Result json.RawMessage
		}
		err := r.out.Decode(&m)
		switch {
		case err != nil:
		case m.Method != "" || m.ID != r.n:
			continue
		case m.Error != nil:
			err = fmt.Errorf("%s: %s", method, m.Error)
		case result != nil:
			err = json.Unmarshal(m.Result, result)
		}
		if err != nil {
			r.end()
			r.x.t.Fatal(err)
		}
		return
	}
}

// end closes its input, upon which it leaves.
func (r *rawCodex) end() {
	r.in.Close()
	_ = r.cmd.Wait() // however it leaves
}
