package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

const (
	// maxFiles is how many requests for files are worked at; an agent that sends more without waiting is refused.
	maxFiles = 64
	// filesGrace is how long the end of a turn waits for what is being written for it.
	filesGrace = 2 * time.Second
)

// files reads and writes files for the agent. Each request has a goroutine of its own, because a file system may take
// its time, and the loop must not.
type files struct {
	space    *workspace    // what may be read; nil: not offered
	writable *workspace    // what may be written; nil: nothing
	slots    chan struct{} // holds one for each request that is worked at
	working  sync.WaitGroup
}

// openFiles opens the session's workspace, for the agent's own requests where they are wanted, and for images.
func (a *Agent) openFiles(p sessions.OpenParams) {
	space, err := openWorkspace(p.Cwd, p.WritableRoots)
	if err != nil {
		a.log.Debug().Err(err).Msg("workspace")
		return
	}
	a.space.Store(space)
	if a.o.Files {
		a.files.space, a.files.slots = space, make(chan struct{}, maxFiles)
		a.files.writable = space
		if a.sandbox == sessions.SandboxReadOnly {
			a.files.writable = space.roots()
		}
	}
}

// close waits for what is under way.
func (f *files) close() { f.working.Wait() }

// readFile handles fs/read_text_file. Reading changes nothing, so it needs no turn: agents look at a project as they
// open it.
func (a *Agent) readFile(m wire.Message) {
	var p struct {
		SessionID string `json:"sessionId"`
		Path      string `json:"path"`
		Line      uint   `json:"line"`
		Limit     uint   `json:"limit"`
	}
	_ = decode(m.Params, &p)
	if !a.mayTouch(m, p.SessionID, false) {
		return
	}
	space := a.files.space
	a.atFile(m, p.Path, func() (any, error) {
		text, err := space.readText(p.Path, p.Line, p.Limit)
		return struct {
			Content string `json:"content"`
		}{text}, err
	})
}

// writeFile handles fs/write_text_file, which belongs to a turn: a turn that was cancelled writes nothing any more.
func (a *Agent) writeFile(m wire.Message) {
	var p struct {
		SessionID string  `json:"sessionId"`
		Path      string  `json:"path"`
		Content   *string `json:"content"`
	}
	_ = decode(m.Params, &p)
	if !a.mayTouch(m, p.SessionID, true) {
		return
	}
	switch {
	case p.Content == nil:
		a.replyError(m.ID, wire.CodeInvalidParams, "content is missing")
		return
	case a.files.writable == nil:
		a.replyError(m.ID, wire.CodeInvalidParams, p.Path+" cannot be written: the session's sandbox is "+sessions.SandboxReadOnly)
		return
	}
	space := a.files.writable
	a.atFile(m, p.Path, func() (any, error) { return struct{}{}, space.writeText(p.Path, *p.Content) })
}

// atFile does one request outside the loop and answers it.
func (a *Agent) atFile(m wire.Message, path string, do func() (any, error)) {
	select {
	case a.files.slots <- struct{}{}:
	default:
		a.replyError(m.ID, wire.CodeInternalError, "too many requests for files at once")
		return
	}
	a.files.working.Go(func() {
		defer func() { <-a.files.slots }()
		result, err := do()
		if err != nil {
			a.replyError(m.ID, fileCode(err), filepath.Base(m.Method)+" "+path+": "+plainError(err))
			return
		}
		a.reply(m.ID, result)
	})
}

// fileCode tells a path that is refused from one that leads nowhere and from one that the system has trouble with.
// That a path leaves the workspace is no error of the system, so it is the first kind.
func fileCode(err error) int64 {
	var system syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return codeNoResource
	case errors.As(err, &system):
		return wire.CodeInternalError
	}
	return wire.CodeInvalidParams
}

// plainError leaves out the path below the workspace that the error carries, beside which the agent's own stands.
func plainError(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// settleFiles waits until nothing more is written for the turn that ends: when every slot is free.
func (a *Agent) settleFiles() {
	if len(a.files.slots) == 0 {
		return
	}
	grace := time.NewTimer(filesGrace)
	defer grace.Stop()
	for n := range cap(a.files.slots) {
		select {
		case a.files.slots <- struct{}{}:
			defer func() { <-a.files.slots }()
		case <-grace.C:
			a.log.Warn().Int("free", n).Msg("files")
			a.warn("the file system is slow: something may still be written for a turn that has ended", nil, nil)
			return
		}
	}
}

// mayTouch tells whether a request for a file or a terminal may be served, and refuses it where it may not. Such
// requests need no approval of ours: agents ask for that by themselves, before.
func (a *Agent) mayTouch(m wire.Message, session string, turn bool) bool {
	why := ""
	switch {
	case a.session == "" || a.phase == phaseClosing || a.phase == phaseFailed:
		why = "no session is open"
	case session != "" && session != a.session:
		why = "unknown session " + session
	case turn && (a.turn == nil || a.replay):
		why = "no turn is running"
	case turn && a.turn.cancelled:
		why = "the turn was cancelled"
	}
	if why != "" {
		a.replyError(m.ID, wire.CodeInvalidParams, why)
		return false
	}
	if turn {
		a.accept(m.Method)
	}
	return true
}
