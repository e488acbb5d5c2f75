package bridge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/sessions"
)

// hostConn is one connection of a host. Its reader never writes once the hello is out, so that inputs are taken while the
// host takes no frames: a host that gives a long input before it goes on reading would wait for us as we for it.
type hostConn struct {
	net.Conn

	// Owned by the sender.
	sent uint64 // the last out frame written
	told uint64 // the last input whose receipt was told
	pong uint64 // pings that were answered

	// Set with the spool woken. The sender looks at them under the spool's lock, where the bridge's own must not be taken.
	received atomic.Uint64 // the last input received
	awaited  atomic.Uint64 // the last one of them whose receipt is to be told at once
	pinged   atomic.Uint64 // pings that came
	gone     atomic.Bool   // the connection is lost or replaced
}

// acceptPause is between a connection that could not be taken and the next try.
const acceptPause = 50 * time.Millisecond

// accept takes host connections until the listener is closed. A machine that is short of descriptors or of memory for a
// moment must not leave a bridge that no host ever reaches again.
func (b *Bridge) accept() {
	for {
		conn, err := b.o.Listener.Accept()
		switch {
		case err == nil:
			b.wg.Go(func() { b.serve(&hostConn{Conn: conn}) })
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		b.o.Log.Warn().Err(err).Msg("a host's connection could not be taken")
		select {
		case <-time.After(acceptPause):
		case <-b.ended:
			return
		}
	}
}

// serve greets one host and reads its frames until the connection ends.
func (b *Bridge) serve(c *hostConn) {
	defer c.Close()
	stop := closeAfter(b.ended, c)
	defer stop()
	r := bufio.NewReaderSize(c, 64<<10)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	f, err := readFrame(r)
	if err != nil || f.Type != typeAttach {
		return
	}
	var a Attach
	if err := json.Unmarshal(f.Body, &a); err != nil {
		return
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	if e := b.adopt(c, a); e != nil {
		if line, err := frameOf(typeRefuse, 0, "", e); err == nil {
			c.Write(line)
		}
		return
	}
	defer b.lose(c)
	for {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		if !b.holds(c) {
			return // fenced: a newer host is attached
		}
		switch f.Type {
		case typeAck:
			b.spool.ack(f.N)
		case typePing:
			c.pinged.Add(1)
			b.spool.wake()
		case typeEnd:
			b.hurried.Store(true)
			b.beginNothing()
			b.stopping.cancel(errClosing)
			b.wg.Go(func() { b.shutdown(errClosing, true) })
		case typeIn:
			failpoint.Hit("bridge.input.read")
			if b.receive(c, f) {
				failpoint.Hit("bridge.input.received")
				c.received.Store(f.N)
				if f.Kind != InPrompt { // of which the host hears with what becomes of it, or with a pong: the agent is to have it first
					c.awaited.Store(f.N)
					b.spool.wake()
				}
			}
		}
	}
}

// adopt makes c the one connection, after the hello is written. A refusal is returned and changes nothing.
func (b *Bridge) adopt(c *hostConn, a Attach) *sessions.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.Protocol != Protocol:
		return sessions.Errorf(sessions.CodeUnsupported, "this bridge (%s) speaks bridge protocol %d, the host asked for %d", b.o.Version, Protocol, a.Protocol).
			Do("close the session with the version that made it, then resume it")
	case a.Generation != b.generation && b.generation != "":
		return sessions.Errorf(sessions.CodeStaleGeneration, "this bridge serves generation %s, not %s", b.generation, a.Generation).
			Do("look at the session again, then decide anew")
	case a.Epoch < b.epoch:
		return sessions.Errorf(sessions.CodeFenced, "a newer host (epoch %d) holds this bridge, this one is %d", b.epoch, a.Epoch).
			Do("ask the newer host")
	}
	b.generation, b.epoch = a.Generation, a.Epoch
	b.spool.ack(a.After)
	first, last := b.spool.bounds()
	hello := Hello{Protocol: Protocol, Version: b.o.Version, Generation: b.generation, Epoch: b.epoch, LastIn: b.lastIn,
		FirstOut: first, LastOut: last, Pings: true, Containment: string(b.o.Inside.Rung),
		Inputs: []Kind{InOpen, InProbe, InForeign, InPrompt, InAnswer, InCancel, InClose, InVoid}}
	line, err := frameOf(typeHello, 0, "", hello)
	if err != nil {
		return sessions.AsError(err)
	}
	if old := b.conn; old != nil {
		old.gone.Store(true)
		old.Close()
	}
	failpoint.Hit("bridge.hello")
	if _, err := c.Write(line); err != nil {
		b.conn = nil
		b.armOrphanLocked()
		return sessions.AsError(fmt.Errorf("write hello: %w", err))
	}
	c.sent = max(a.After, first-1)
	b.conn = c
	b.orphan.stop()
	b.changed.Broadcast()
	b.spool.wake()
	return nil
}

func (b *Bridge) holds(c *hostConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn == c
}

// lose forgets a connection that ended; without a host the grace begins.
func (b *Bridge) lose(c *hostConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != c {
		return
	}
	b.conn = nil
	c.gone.Store(true)
	b.changed.Broadcast()
	b.spool.wake()
	b.armOrphanLocked()
	b.leaveLocked()
}

// send writes the spool to whichever host is attached, from what it has, and what was received.
func (b *Bridge) send() {
	for {
		b.mu.Lock()
		for b.conn == nil && !b.closed {
			b.changed.Wait()
		}
		c := b.conn
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return
		}
		if c.deliver(b.spool) != nil {
			c.Close() // its reader ends too and loses it
			b.lose(c)
		}
	}
}

// deliver waits until there is something for the host, and writes it.
func (c *hostConn) deliver(s *spool) error {
	batch := s.next(c.sent, func() bool { return c.gone.Load() || c.awaited.Load() > c.told || c.pinged.Load() > c.pong })
	if c.gone.Load() {
		return nil
	}
	if n := c.pinged.Load(); n > c.pong {
		line, err := frameOf(typePong, 0, "", nil)
		if err != nil {
			return err
		}
		if _, err := c.Write(line); err != nil {
			return err
		}
		c.pong = n
	}
	bufs, n := net.Buffers(batch), uint64(len(batch))
	got := c.received.Load()
	if got > c.told {
		line, err := frameOf(typeGot, got, "", nil)
		if err != nil {
			return err
		}
		bufs = slices.Insert(bufs, 0, line)
	}
	if len(bufs) == 0 {
		return nil
	}
	if n > 0 {
		failpoint.Hit("bridge.frames.before")
	}
	if _, err := bufs.WriteTo(c.Conn); err != nil {
		return err
	}
	c.sent, c.told = c.sent+n, got
	if n == 0 {
		return nil
	}
	failpoint.Hit("bridge.frames.after")
	return nil
}

// receive queues an input once; a number that was seen before, or that skips one, is not taken. Nor is what an older
// host's connection still held when a newer host was told what had come.
func (b *Bridge) receive(c *hostConn, f Frame) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != c || f.N != b.lastIn+1 || b.sealed {
		return false
	}
	b.lastIn = f.N
	b.inbox = append(b.inbox, f)
	b.changed.Broadcast()
	if f.Kind == InClose {
		b.stopping.cancel(errClosing) // a handshake under way ends at once
		b.wg.Go(b.hurry)
	}
	return true
}

// inputPatience is how long the end of a session waits for the inputs before it. A write to an agent that reads nothing
// takes as long as it may.
const inputPatience = 2 * time.Second

// hurry ends the session when the worker does not come to it.
func (b *Bridge) hurry() {
	timer := time.NewTimer(inputPatience)
	defer timer.Stop()
	select {
	case <-timer.C:
		b.shutdown(errClosing, true)
	case <-b.ended:
	}
}

// closeAfter closes c when done is closed, unless the returned stop is called first.
func closeAfter(done <-chan struct{}, c net.Conn) (stop func()) {
	quit := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-done:
			c.Close()
		case <-quit:
		}
	}()
	return func() { close(quit); <-finished }
}
