package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
)

// shutdown ends the agent, everything it started, and the bridge. It runs once; asked tells that somebody wanted it.
func (b *Bridge) shutdown(why error, asked bool) {
	b.stop.Do(func() {
		failpoint.Hit("bridge.shutdown")
		b.spool.lift()
		b.tellViolation()
		b.cancelRunning(asked)
		b.beginNothing() // before what is under way returns, or the worker would give what waits behind it to an agent at its end
		b.stopping.cancel(why)
		p := b.started()
		exit := Exit{Reason: why.Error(), Asked: asked || errors.Is(why, errOrphan)}
		if p != nil {
			select {
			case <-p.child.Done():
			default:
				p.end(b.haste.Load())
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		empty := b.o.Reaper.KillAll(ctx)
		cancel()
		b.unplant() // nobody is left who could do it again
		b.tellViolation()
		if p != nil {
			p.conn.Close()
			if p.agent != nil {
				<-p.agent.Done()
			}
			select {
			case <-p.child.Done():
				exit.Code, exit.Signal = p.child.Status()
			case <-time.After(2 * time.Second):
			}
			exit.Stderr, exit.Stdout = p.lastWords(), p.stray()
		}
		b.rec.close()
		b.veil.close(b.event)
		taken := b.seal() // what became of each input is told before the end is
		b.mu.Lock()
		for id, t := range b.turns {
			if t.deadline != nil {
				t.deadline.Stop()
			}
			exit.Running = append(exit.Running, id)
		}
		b.mu.Unlock()
		if p != nil {
			exit.Taken = taken
			b.put(OutExited, exit)
		}
		b.put(OutStopped, Stopped{Empty: empty, Why: why.Error(), Taken: taken})
		failpoint.Hit("bridge.stopped")
		b.handOver()
		close(b.ended)
	})
}

// started lets the worker begin nothing more and returns the agent, nil when none was or ever will be started. One that is
// being started at this moment is waited for: unknown it would outlive the bridge's own end.
func (b *Bridge) started() *agentProcess {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	b.changed.Broadcast()
	for b.working && b.agent == nil {
		b.changed.Wait()
	}
	return b.agent
}

// cancelRunning gives a running turn the chance to end as cancelled before its agent is closed.
func (b *Bridge) cancelRunning(asked bool) {
	p := b.running()
	if p == nil || !asked {
		return
	}
	limit := 5 * time.Second
	if b.haste.Load() {
		limit = hasteLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	b.mu.Lock()
	var ids []string
	for id, t := range b.turns {
		ids = append(ids, id)
		if t.reason == "" {
			t.reason = "closed"
		}
	}
	b.mu.Unlock()
	for _, id := range ids {
		if p.agent.Cancel(ctx, id) != nil {
			return
		}
	}
	for len(ids) > 0 {
		b.mu.Lock()
		left := len(b.turns)
		b.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.child.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// handOver waits until the host has everything; without a host it goes into the spill file.
func (b *Bridge) handOver() {
	patience := lastAck
	if b.hurried.Load() {
		patience = lastAckGone
	}
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		b.mu.Lock()
		attached := b.conn != nil
		b.mu.Unlock()
		wait := lastAckGone
		if attached {
			wait = 500 * time.Millisecond
		} else if b.haste.Load() {
			break
		}
		if b.spool.drained(wait) {
			return
		}
		if !attached {
			break
		}
	}
	failpoint.Hit("bridge.spill.before")
	if err := writeSpill(b.o.Spill, b.spool.rest()); err != nil {
		b.o.Log.Error().Err(err).Msg("unacknowledged frames could not be spilled")
	}
	failpoint.Hit("bridge.spill.after")
}

const (
	// hasteLimit bounds each step of the end of an agent whose bridge was told to end. Those who shut a machine down kill
	// what has not ended some seconds later.
	hasteLimit = time.Second
	// toldLimit is how long it counts that a bridge with a host was told to end: its host was too, and ends.
	toldLimit = 10 * time.Second
)

// heed waits until the process is told to end. A bridge whose host is there leaves that to the host: an agent can tell it
// as well, by accident. Without one nobody else would hand over what is not journalled yet.
func (b *Bridge) heed() {
	select {
	case <-b.o.Told.Done():
	case <-b.ended:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toldAt = time.Now()
	b.o.Log.Warn().Bool("host", b.conn != nil).Msg("told to end")
	b.leaveLocked()
}

// leaveLocked ends a bridge that was told to and has no host.
func (b *Bridge) leaveLocked() {
	if b.conn != nil || b.closed || b.toldAt.IsZero() || time.Since(b.toldAt) > toldLimit {
		return
	}
	b.haste.Store(true)
	b.hurried.Store(true)
	b.wg.Go(func() { b.shutdown(errTold, true) })
}
