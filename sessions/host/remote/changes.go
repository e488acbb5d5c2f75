package remote

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxObservers bounds the front ends that are told of changes.
const maxObservers = 1024

// Changes are the changes of what List and Wait read. Their count is odd while one may be seen that is not over; who reads
// then may read what is true no more when the next one looks. Front ends that have asked since the last change, and watch,
// are told of each twice: before anybody can see it, and before its maker or anybody else is told of it. The zero value is
// ready. It is safe for concurrent use, but changes follow one another.
type Changes struct {
	n atomic.Uint64

	mu        sync.Mutex
	observers map[string]*observer
	armed     []*observer
	closed    bool
	running   sync.WaitGroup
}

// observer is the connection of a front end that is told of changes. It is told by a byte: what is in the socket when a
// change is answered is there when the front end looks.
type observer struct {
	conn  net.Conn
	raw   syscall.RawConn
	armed bool
}

// Begin tells of a change before anybody can see it; the function that it returns ends it, whatever came of it.
func (c *Changes) Begin() (end func()) {
	c.step()
	return c.step
}

func (c *Changes) step() {
	c.n.Add(1) // before those are told that asked before: who asks after that is not remembered
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.armed {
		w.armed = false
		w.tell()
	}
	c.armed = c.armed[:0]
}

// tell never waits: where there is no room for the byte, others are there unread. The end of the connection says the same.
func (w *observer) tell() {
	var failed error
	err := w.raw.Write(func(fd uintptr) bool {
		for {
			if _, failed = unix.Write(int(fd), []byte{1}); failed != unix.EINTR {
				return true
			}
		}
	})
	if err != nil || failed != nil && failed != unix.EAGAIN {
		w.conn.Close()
	}
}

// arm has a front end told of the next change, before it is answered. false: it does not watch.
func (c *Changes) arm(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.observers[id]
	if w == nil {
		return false
	}
	if !w.armed {
		w.armed = true
		c.armed = append(c.armed, w)
	}
	return true
}

// watch lets a front end watch, until its connection ends or this does. head is what it reads first, once it watches.
func (c *Changes) watch(id string, conn net.Conn, head []byte) {
	defer conn.Close()
	s, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	c.mu.Lock()
	if c.closed || len(c.observers) >= maxObservers {
		c.mu.Unlock()
		return
	}
	if c.observers == nil {
		c.observers = map[string]*observer{}
	}
	c.observers[id] = &observer{conn: conn, raw: raw}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	defer c.leave(id)
	if _, err := conn.Write(head); err != nil {
		return
	}
	var b [1]byte
	conn.Read(b[:]) // it says nothing: this is the end
}

func (c *Changes) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.observers, id)
}

// Close ends all watching, before the claim is released: another host may change things then.
func (c *Changes) Close() {
	c.mu.Lock()
	c.closed = true
	for _, w := range c.observers {
		w.conn.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
}
