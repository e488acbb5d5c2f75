package acp

import (
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

const (
	maxTerminals  = 64                     // of one turn, so that an agent cannot have us start programs without end
	maxTerminal   = 1 << 20                // bytes of output that are kept of each, whatever the agent asks for
	beforeOutput  = 32 << 10               // bytes of output that are kept in front of that, to know a secret by that begins there: more than any is long, however encoded
	terminalGrace = time.Second            // from the signal that asks a program to leave to the one that makes it
	drainGrace    = 250 * time.Millisecond // how long output may come after the end of a program: something it started may hold the pipe for good
)

// terminal is one program that the agent had us start. All but its output belongs to the loop.
type terminal struct {
	id       string
	process  Process
	output   *output
	read     *os.File
	exited   bool
	released bool // the agent knows it no more; its output is still shown
	waiting  []wire.ID
	force    *time.Timer // until the kill; nil: nobody asked it to leave
}

// terminals are those of the running turn, and until the next one begins those of the last, whose programs are ended.
type terminals struct {
	made int
	open map[string]*terminal
}

// offersTerminals tells whether the agent may have programs started. Not where it is the agent that keeps its commands in
// a sandbox: ours would be outside.
func (a *Agent) offersTerminals() bool { return a.o.Start != nil && a.sandboxBy != "agent" }

// createTerminal handles terminal/create. It belongs to a turn, and ends with it.
func (a *Agent) createTerminal(m wire.Message) {
	var spec terminalSpec
	_ = decode(m.Params, &spec)
	if !a.mayTouch(m, spec.SessionID, true) {
		return
	}
	t, err := a.startTerminal(spec)
	if err != nil {
		code := int64(wire.CodeInvalidParams)
		var system syscall.Errno
		if errors.As(err, &system) {
			code = wire.CodeInternalError
		}
		a.replyError(m.ID, code, "terminal/create "+clip(spec.Command, 200)+": "+err.Error())
		return
	}
	a.reply(m.ID, struct {
		TerminalID string `json:"terminalId"`
	}{t.id})
}

func (a *Agent) startTerminal(spec terminalSpec) (*terminal, error) {
	if len(a.terminals.open) >= maxTerminals {
		return nil, errors.New("the turn has " + strconv.Itoa(maxTerminals) + " terminals already")
	}
	p, err := spec.program(a.o.Env, a.cwd)
	if err != nil {
		return nil, err
	}
	// Where a command begins is no wall, a command can go elsewhere; but one that begins outside is a mistake.
	if space := a.space.Load(); space != nil && a.sandbox != sessions.SandboxFullAccess {
		if _, _, err := space.find(p.Dir); err != nil {
			return nil, errNoDir
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.Output = write
	process, err := a.o.Start(p)
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	limit := uint64(maxTerminal)
	if spec.Limit != nil {
		limit = min(limit, *spec.Limit)
	}
	a.terminals.made++
	t := &terminal{id: "term-" + strconv.Itoa(a.terminals.made), process: process, read: read, output: &output{max: int(limit)}}
	if a.terminals.open == nil {
		a.terminals.open = map[string]*terminal{}
	}
	a.terminals.open[t.id] = t
	drained := make(chan struct{})
	a.helpers.Go(func() {
		held := t.collect()
		close(drained)
		if held {
			_, _ = io.Copy(t.output, read)
		}
	})
	a.helpers.Go(func() {
		select {
		case <-process.Done():
		case <-a.ending:
			return
		}
		_ = read.SetReadDeadline(time.Now().Add(drainGrace)) // a pipe has one
		select {
		case <-drained:
		case <-a.ending:
			return
		}
		select {
		case a.tasks <- func() { a.terminalExited(t) }:
		case <-a.ending:
		}
	})
	return t, nil
}

// collect keeps what the program writes, to the end of that, or to the deadline of the pipe and all that was written before
// it: on a busy machine it may still lie there. held tells whether somebody may write more.
func (t *terminal) collect() (held bool) {
	_, err := io.Copy(t.output, t.read)
	if !errors.Is(err, os.ErrDeadlineExceeded) || t.read.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	t.takeRest()
	return true
}

// takeRest takes what lies in the pipe, and does not wait for more.
func (t *terminal) takeRest() {
	conn, err := t.read.SyscallConn()
	if err != nil {
		return
	}
	piece := make([]byte, 64<<10)
	_ = conn.Read(func(fd uintptr) bool {
		for taken := 0; taken < maxTerminal; { // somebody may write without end
			n, err := syscall.Read(int(fd), piece)
			if n > 0 {
				taken += n
				_, _ = t.output.Write(piece[:n])
			} else if err != syscall.EINTR {
				break
			}
		}
		return true
	})
}

// terminalExited answers whoever waits for the end of a program.
func (a *Agent) terminalExited(t *terminal) {
	t.exited = true
	if t.force != nil {
		t.force.Stop()
	}
	for _, id := range t.waiting {
		a.reply(id, t.status())
	}
	t.waiting = nil
	if a.turn == nil {
		return
	}
	for _, f := range a.turn.sorted() {
		f.terminalExited(t.id)
	}
}

// shown is what a tool that embeds a terminal shows of it.
func (a *Agent) shown(id string) (text string, exit *int) {
	t := a.terminals.open[id]
	if t == nil {
		return "", nil
	}
	text = t.output.end(maxOutput, a.o.Redact)
	if t.exited {
		exit = t.status().Code
	}
	return text, exit
}

type exitStatus struct {
	Code   *int    `json:"exitCode"`
	Signal *string `json:"signal"`
}

func (t *terminal) status() *exitStatus {
	code, signal := t.process.Status()
	if signal != "" {
		return &exitStatus{Signal: &signal}
	}
	return &exitStatus{Code: &code}
}

// terminalRequest handles the requests about a terminal that there is.
func (a *Agent) terminalRequest(m wire.Message) {
	var p struct {
		SessionID string `json:"sessionId"`
		ID        string `json:"terminalId"`
	}
	_ = decode(m.Params, &p)
	if !a.mayTouch(m, p.SessionID, false) {
		return
	}
	t := a.terminals.open[p.ID]
	if t == nil || t.released {
		a.replyError(m.ID, codeNoResource, "there is no terminal "+clip(p.ID, 100))
		return
	}
	switch m.Method {
	case methodTermOutput:
		text, cut := t.output.text()
		r := struct {
			Output string      `json:"output"`
			Cut    bool        `json:"truncated"`
			Exit   *exitStatus `json:"exitStatus,omitempty"`
		}{Output: text, Cut: cut}
		if t.exited {
			r.Exit = t.status()
		}
		a.reply(m.ID, r)
	case methodTermWait:
		if t.exited {
			a.reply(m.ID, t.status())
			return
		}
		t.waiting = append(t.waiting, m.ID)
	case methodTermKill:
		t.stop()
		a.reply(m.ID, struct{}{})
	case methodTermRelease:
		t.stop()
		t.released = true
		a.reply(m.ID, struct{}{})
	}
}

// stop asks the program to leave, and makes it after a while.
func (t *terminal) stop() {
	if t.exited || t.force != nil {
		return
	}
	t.process.SignalGroup(syscall.SIGTERM) // one that has ended needs none
	t.force = time.AfterFunc(terminalGrace, func() { t.process.SignalGroup(syscall.SIGKILL) })
}

// stopTerminals ends what the turn's terminals run. The bridge sees to what has left its process group.
func (a *Agent) stopTerminals() {
	for _, t := range a.terminals.open {
		t.stop()
	}
}

// endTerminals kills what is left, and forgets it.
func (a *Agent) endTerminals() {
	for _, t := range a.terminals.open {
		if t.force != nil {
			t.force.Stop()
		}
		if !t.exited {
			t.process.SignalGroup(syscall.SIGKILL)
		}
		t.read.Close()
	}
	clear(a.terminals.open)
}

// withdrawWait handles $/cancel_request for a terminal/wait_for_exit.
func (a *Agent) withdrawWait(id string) bool {
	for _, t := range a.terminals.open {
		i := slices.IndexFunc(t.waiting, func(w wire.ID) bool { return w.String() == id })
		if i >= 0 {
			w := t.waiting[i]
			t.waiting = slices.Delete(t.waiting, i, i+1)
			a.replyError(w, codeCancelled, "Request cancelled")
			return true
		}
	}
	return false
}

// output keeps the end of what a program wrote.
type output struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, p...)
	if keep := o.max + beforeOutput; len(o.buf) > 2*keep { // not at every write
		o.buf = append(o.buf[:0], o.buf[len(o.buf)-keep:]...)
	}
	return len(p), nil
}

// text is the output so far, as the agent gets it, and whether that is not all.
func (o *output) text() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := o.from(o.max)
	return strings.ToValidUTF8(string(o.buf[from:]), "\uFFFD"), from > 0
}

// end is what is told of the output: at most so much of its end.
func (o *output) end(n int, hide sessions.Redactor) string {
	o.mu.Lock()
	from := o.from(min(n, o.max))
	before, text := string(o.buf[max(0, from-beforeOutput):from]), string(o.buf[from:])
	o.mu.Unlock()
	return strings.ToValidUTF8(hide.After(before, text), "\uFFFD")
}

// from is where the last n bytes begin, with a whole character.
func (o *output) from(n int) int {
	from := max(0, len(o.buf)-n)
	for i := 0; i < 3 && from > 0 && from < len(o.buf) && o.buf[from]&0xC0 == 0x80; i++ {
		from++
	}
	return from
}
