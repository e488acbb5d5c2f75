package remote

import (
	"errors"
	"fmt"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
)

// Claim is what makes a process the host of its state directory. It ends with the process, whatever ends that.
type Claim struct {
	// Token is what callers must show; see HandlerOptions.
	Token string

	places   place.Places
	lock     *local.Held
	listener *local.Listener
}

// Take makes the folders and takes the host's lock. Where another process holds it the error wraps local.ErrLocked, and
// the caller ends with status 0: somebody serves, or is about to.
func Take(p place.Places) (*Claim, error) {
	if err := p.Make(); err != nil {
		return nil, err
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
	c.listener = l
	return l, nil
}

// Release gives it all up: the socket's path first, while the lock still keeps others from binding it.
func (c *Claim) Release() error {
	var err error
	if c.listener != nil {
		c.listener.Close()
		err = c.listener.Remove()
	}
	return errors.Join(err, c.lock.Close())
}
