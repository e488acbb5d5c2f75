package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
)

// Claim is what makes a process the host of its state directory. It ends with the process, whatever ends that.
type Claim struct {
	// Token is what callers must show; see HandlerOptions.
	Token string

	places place.Places
	lock   *local.Held

	mu       sync.Mutex
	listener *local.Listener // the one at the path, nil before Listen
}

// Take makes the folders and takes the host's lock. Where another process holds it the error wraps local.ErrLocked, and
// the caller ends with status 0: somebody serves, or is about to.
func Take(p place.Places) (*Claim, error) {
	if err := p.Make(); err != nil {
		return nil, filesError("cannot be the host", err)
	}
	lock, err := local.Lock(p.Lock())
	if err != nil {
		return nil, err
	}
	token, err := local.Token(p.Token())
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Claim{Token: token, places: p, lock: lock}, nil
}

// Listen opens the socket and announces it. Connections wait in it until they are served, so it comes after whatever is
// slow.
func (c *Claim) Listen() (*local.Listener, error) {
	l, err := c.lock.Listen(c.places.HostSocket())
	if err != nil {
		return nil, err
	}
	if err := c.lock.Announce(c.places.HostSocket()); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot announce the socket: %w", err)
	}
	c.mu.Lock()
	c.listener = l
	c.mu.Unlock()
	return l, nil
}

// ErrClaimLost: the lock's file was deleted or replaced, so that another process may be the host by now.
var ErrClaimLost = errors.New("the lock of the state directory was deleted or replaced")

// Keep looks after the socket until ctx ends, or until the claim is lost, which is its error. A path that no longer leads to it, because the runtime folder was cleaned
// up at a logout or by age, would leave a host that nobody reaches and that lets nobody else be it; then the folders and
// the socket are made anew, and again gets the new listener, to serve it beside the former. What fails is tried again
// at the next look, and told to failed.
func (c *Claim) Keep(ctx context.Context, every time.Duration, again func(net.Listener), failed func(error)) error {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if there, lost := c.lock.Place(); lost {
			return ErrClaimLost
		} else if !there {
			continue // folders made anew would be in the way of whoever puts it back
		}
		c.mu.Lock()
		l := c.listener
		c.mu.Unlock()
		if l == nil || l.Present() {
			continue
		}
		if err := c.places.Make(); err != nil {
			failed(err)
			continue
		}
		next, err := c.Listen()
		if err != nil {
			failed(err)
			continue
		}
		next.Refused = l.Refused
		again(next)
	}
}

// Release gives it all up, once Keep has returned: the socket's path first, while the lock still keeps others from
// binding it.
func (c *Claim) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.listener != nil {
		c.listener.Close()
		err = c.listener.Remove()
	}
	return errors.Join(err, c.lock.Close())
}
