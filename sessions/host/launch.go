package host

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/host/remote"
	"github.com/batonmcp/baton/sessions/journal"
)

// launch is what a new generation needs and the journal must not hold: it is handed to the bridge and forgotten.
type launch struct {
	spec   bridge.Spec
	files  *sandbox.Filesystem // nil: no policy for files
	hidden []string            // masked beside Baton's own, under every policy
	// account is the digest of the account context that the agent gets.
	account string
}

// launchPatience is how long a start that an earlier host did not finish waits for its caller to make the call again,
// which front ends do by themselves: what a launch needs of their environment is in no journal.
const launchPatience = remote.DefaultPatience

func noSocket(err error) *sessions.Error {
	return sessions.Errorf(sessions.CodeInternal, "no socket for the session: %w", err).
		Do("look at the runtime folder, its disk and its permissions, then create or resume again")
}

// awaitLaunch waits until there is something to launch. An error says that it did not come, or that nobody wants the
// session any more.
func (t *tender) awaitLaunch() error {
	if err := t.clearSocket(t.h.o.Places.BridgeSocket(t.generation)); err != nil {
		return noSocket(err)
	}
	timer := time.NewTimer(launchPatience)
	defer timer.Stop()
	for {
		if t.launch() != nil {
			return nil
		}
		wanted := false
		if err := t.h.j.View(t.h.life, func(tx *journal.Tx) error {
			s, err := tx.GetSession("", t.session)
			wanted = s.State == sessions.SessionStarting
			return err
		}); err != nil {
			return err
		}
		if !wanted || t.asked() {
			return errUnsent
		}
		select {
		case <-t.kicked:
		case <-timer.C:
			return errUnsent
		case <-t.h.life.Done():
			return context.Cause(t.h.life)
		}
	}
}

// launch is what the generation is to be started with, nil when only an earlier host knew it.
func (t *tender) launch() *launch {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if l, ok := t.h.launches[t.generation]; ok {
		return &l
	}
	return nil
}

// hasLaunch notes that the bridge has what it is launched with, which is forgotten here.
func (t *tender) hasLaunch() {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.launched = true
	delete(t.h.launches, t.generation)
}

// relaunch gives the tender of a start that an earlier host did not finish what the repeated call brought. plan is called
// only when it is missing.
func (h *Host) relaunch(session, generation string, plan func() (launch, error)) error {
	missing := func() bool {
		t := h.tenders[session]
		_, there := h.launches[generation]
		return t != nil && t.generation == generation && !t.launched && !there
	}
	h.mu.Lock()
	needed := missing()
	h.mu.Unlock()
	if !needed {
		return nil
	}
	l, err := plan()
	if err != nil {
		return err
	}
	h.mu.Lock()
	if missing() {
		h.launches[generation] = l
	}
	h.mu.Unlock()
	h.kick(session)
	return nil
}

// discard ends a bridge that is not registered, so that no host will look for it.
func (t *tender) discard() {
	if t.proc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.h.life), 2*time.Second)
	defer cancel()
	t.proc.Stop(ctx)
	t.proc.Release()
}

// start launches the bridge behind its gate: the agent is executed only after the bridge's identity is durable, by the
// open input that this tender sends next.
func (t *tender) start() error {
	h := t.h
	socket := h.o.Places.BridgeSocket(t.generation)
	ln, err := local.Listen(socket)
	if err != nil {
		return noSocket(err)
	}
	defer ln.Close()
	lf, err := ln.File()
	if err != nil {
		return noSocket(err)
	}
	defer lf.Close()
	spill, err := os.OpenFile(h.o.Places.Spill(t.generation), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return storageError("no spill file for the session", err)
	}
	defer spill.Close()
	log, err := os.OpenFile(h.o.Places.BridgeLog(t.generation), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return storageError("no log for the session", err)
	}
	defer log.Close()
	failpoint.Hit("host.launch.before")
	if l := t.launch(); l != nil {
		if err := l.unmoved(); err != nil {
			return err
		}
		t.policy = l.spec.Open.Files
	}
	proc, err := sandbox.Start(h.life, sandbox.Launch{Args: append([]string{bridge.Command}, failpoint.Args()...), Files: []*os.File{lf, spill}, Log: log, Rung: h.can.Rung, Mask: t.masks(),
		Filesystem: t.files(), MaxProcesses: maxProcesses, Dir: "/"})
	if err != nil {
		return sessions.Errorf(sessions.CodeSandboxUnavailable, "the session's bridge could not be started: %w", err).
			Do("run `baton doctor`, or force a weaker rung")
	}
	h.mu.Lock()
	t.proc, t.record = proc, proc.Record()
	h.mu.Unlock()
	failpoint.Hit("host.launch.started")
	record, err := json.Marshal(t.record)
	if err != nil {
		return err
	}
	defer failpoint.Hit("host.launch.registered")
	return h.update(h.life, func(tx *journal.Tx, c *changes) error {
		_, err := tx.UpdateGeneration(t.generation, func(g *journal.Generation) {
			g.Rung, g.Record, g.Socket, g.Spill = string(t.record.Rung), record, socket, h.o.Places.Spill(t.generation)
		})
		return err
	})
}

// masks are what nothing of the session may see.
func (t *tender) masks() []string {
	if l := t.launch(); l != nil {
		return slices.Concat(t.h.masks(), l.hidden)
	}
	return t.h.masks() // and should more be hidden, its bridge refuses to open the session
}

// missLaunch waits for the launch, unless the session is to end anyway.
func (t *tender) missLaunch(inputs []journal.Input) error {
	for _, in := range inputs {
		if bridge.Kind(in.Kind) == bridge.InClose {
			t.cause = errUnsent
			return errUnsent
		}
	}
	if t.launchBy.IsZero() {
		t.launchBy = time.Now().Add(launchPatience)
	}
	return nil
}
