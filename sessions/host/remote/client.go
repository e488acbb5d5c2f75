package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
)

// ErrNoHost is wrapped by the errors that say that no host could be reached: this call had no effect.
var ErrNoHost = errors.New("no host is running")

// Limits of a call.
const (
	DefaultPatience = 20 * time.Second
	// maxBroken is how many hosts may die in one call before it is not made again: it may be what kills them.
	maxBroken = 5
)

// Options are where and how a Client finds its host.
type Options struct {
	Socket string // the host's socket
	// Lock is the host's lock file, where a host that listens elsewhere says so: it may have been started from an
	// environment with another runtime folder. "": only Socket is tried.
	Lock string
	// TokenFile holds the token; it is made when it is missing. "": no token is sent.
	TokenFile string
	// Start starts a host and returns when one answers. nil: calls fail with ErrNoHost where none runs.
	Start func(ctx context.Context) error
	// Fresh tells that nothing was ever kept where the host would keep it. What only looks is then answered without a host
	// and makes nothing. nil: a host is started to look.
	Fresh func() bool
	// Version is this program's release; a host of an older one is replaced before the first call. "": none is.
	Version string
	// Patience is how long a call goes on without any host. Zero: DefaultPatience. With one that answers nothing it ends
	// sooner, see lookEvery.
	Patience time.Duration
	// Logger takes lost hosts and repeated calls, never what is in them; nil: none.
	Logger *zerolog.Logger
}

// At are the options for the host of the places, started on demand by this program with args.
func At(p place.Places, args ...string) Options {
	return Options{Socket: p.HostSocket(), Lock: p.Lock(), TokenFile: p.Token(), Start: Spawn(p, args...)}
}

// Client is the API of the host behind a socket. It keeps connections for seconds only and needs no closing. It is safe
// for concurrent use.
type Client struct {
	o         Options
	log       zerolog.Logger
	transport http.RoundTripper
	kept      http.RoundTripper // for the first attempts of calls, while they follow one another
	token     local.TokenFile
	look      time.Duration // lookEvery
	silence   time.Duration // lookPatience
	upgraded  sync.Once

	seeing  sync.Mutex
	watch   *watch // nil: none
	opening bool
	mute    local.Version // the socket of a host that tells nobody of changes
}

var (
	_ sessions.API        = (*Client)(nil)
	_ sessions.ForeignAPI = (*Client)(nil)
)

// New makes a client. Nothing is connected before the first call.
func New(o Options) *Client {
	c := &Client{o: o, log: zerolog.Nop(), look: lookEvery, silence: lookPatience}
	if c.o.Patience == 0 {
		c.o.Patience = DefaultPatience
	}
	if o.Logger != nil {
		c.log = *o.Logger
	}
	c.token.Path = o.TokenFile
	c.transport = exchange(c.dial)
	c.kept = &kept{dial: c.dial}
	return c
}

// Status asks the running host what it is; none is started.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, http.MethodGet, verbStatus, c.silence, &s)
	return s, err
}

// Stop asks the running host to end; none is started. It returns when the host has agreed, not when it is gone.
func (c *Client) Stop(ctx context.Context) (Stopped, error) {
	var s Stopped
	err := c.ask(ctx, http.MethodPost, verbStop, c.silence, &s)
	return s, err
}

// dial connects to the socket, or where the holder of the lock says that it listens.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	conn, err := local.Dial(ctx, c.o.Socket)
	if err == nil {
		return conn, nil
	}
	// A host that runs for this state directory must be found, or two environments would wait for each other's.
	if nobody(err) && c.o.Lock != "" {
		if other := local.Announced(c.o.Lock); other != "" && other != c.o.Socket {
			if conn, e := local.Dial(ctx, other); e == nil {
				return conn, nil
			}
		}
	}
	return nil, &dialError{err}
}

// dialError marks what happened before a byte left.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func nobody(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// What can come of one attempt, beside an answer.
type (
	// endedError: the caller's context ended.
	endedError struct{ cause error }
	// refusedError: the host answered with an error, which is as final as a result.
	refusedError struct{ answer *sessions.Error }
	// brokenError: the host took the connection and did not answer; it may have acted.
	brokenError struct{ err error }
	// protocolError: the host speaks another protocol and refused the call unread.
	protocolError struct {
		protocol int
		refusal  *sessions.Error
	}
)

func (e *endedError) Error() string    { return e.cause.Error() }
func (e *endedError) Unwrap() error    { return e.cause }
func (e *refusedError) Error() string  { return e.answer.Error() }
func (e *refusedError) Unwrap() error  { return e.answer }
func (e *brokenError) Error() string   { return "the host did not answer: " + e.err.Error() }
func (e *brokenError) Unwrap() error   { return e.err }
func (e *protocolError) Error() string { return e.refusal.Error() }
func (e *protocolError) Unwrap() error { return e.refusal }

func ended(ctx context.Context) error { return &endedError{context.Cause(ctx)} }

// once makes one attempt of a call.
func (c *Client) once(ctx context.Context, over http.RoundTripper, method, verb string, body []byte, into any) error {
	lasting := sessions.LastingOf(ctx)
	var w *watch
	var news uint64
	if lasting != nil {
		lasting.Set(nil)
		if w, news = c.watching(ctx); w != nil {
			ctx = context.WithValue(ctx, watchKey{}, w.id)
		}
	}
	answer, err := c.roundTrip(ctx, over, method, verb, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := c.read(ctx, verb, answer, into); err != nil {
		return err
	}
	if w != nil && answer.Header.Get(lastsHeader) != "" {
		lasting.Set(func() bool { return w.still(news) })
	}
	return nil
}

// roundTrip sends a call and returns the answer with its body unread.
func (c *Client) roundTrip(ctx context.Context, over http.RoundTripper, method, verb string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://baton"+prefix+verb, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // the transport shall not repeat anything by itself
	r.Header.Set(protocolHeader, strconv.Itoa(Protocol))
	if id, _ := ctx.Value(watchKey{}).(string); id != "" {
		r.Header.Set(watchHeader, id)
	}
	if sessions.IsPassive(ctx) {
		r.Header.Set(passiveHeader, "1")
	}
	if c.o.TokenFile != "" {
		token, err := c.tokenFor(ctx, verb)
		if errors.Is(err, fs.ErrNotExist) { // not even its folder is there
			return nil, ErrNoHost
		}
		if err != nil {
			return nil, sessions.Errorf(sessions.CodeStorageFailed, "the token of calls to the host cannot be read: %w", err).
				Do("remove %s and end the host, where one still runs; the next call makes both anew, and sessions go on", c.o.TokenFile)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := over.RoundTrip(r)
	if err != nil {
		var dial *dialError
		switch {
		case ctx.Err() != nil:
			return nil, ended(ctx)
		case errors.As(err, &dial) && nobody(err):
			return nil, fmt.Errorf("%w: %w", ErrNoHost, dial.err)
		case errors.As(err, &dial):
			return nil, dial.err
		}
		return nil, &brokenError{err}
	}
	return answer, nil
}

// tokenFor is the token of a call. Who asks whether a host runs makes none where nobody would take it.
func (c *Client) tokenFor(ctx context.Context, verb string) (string, error) {
	if verb == verbStatus || verb == verbStop {
		if token, err := local.Kept(c.o.TokenFile); !errors.Is(err, fs.ErrNotExist) {
			return token, err
		}
		conn, err := c.dial(ctx)
		if err != nil {
			return "", fs.ErrNotExist
		}
		conn.Close()
	}
	return c.token.Read()
}

// read reads an answer to its end.
func (c *Client) read(ctx context.Context, verb string, answer *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case ctx.Err() != nil && err != nil:
		return ended(ctx)
	case err != nil:
		return &brokenError{err}
	case len(text) > maxAnswer:
		return sessions.Errorf(sessions.CodeLimitExceeded, "the host's answer has more than %d bytes", maxAnswer).Do("ask for less at once")
	}
	if answer.StatusCode == http.StatusOK {
		if err := own.Unmarshal(text, into); err != nil {
			return sessions.Errorf(sessions.CodeInternal, "the host's answer to %s cannot be decoded: %w", verb, err).
				Do("use one version of baton for the host and its callers (baton host stop ends the host; sessions go on)")
		}
		return nil
	}
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error == nil {
		return sessions.Errorf(sessions.CodeInternal, "what listens at %s answered %s with status %d and is no host", c.o.Socket, verb, answer.StatusCode).
			Do("see what program holds that socket and end it, or name another folder with BATON_HOME")
	}
	if answer.StatusCode == http.StatusUpgradeRequired {
		return &protocolError{f.Protocol, f.Error}
	}
	return &refusedError{f.Error}
}

// final turns the failure of a call that is not made again into an error of the table.
func final(verb string, err error) error {
	var known *sessions.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known.Whole()
	case errors.Is(err, ErrNoHost):
		return sessions.Errorf(sessions.CodeNotRunning, "%s: %w", verb, err).Do("start one with baton host run; most commands do so by themselves")
	case errors.As(err, new(*endedError)):
		return sessions.Errorf(sessions.CodeTimeout, "%s: the call was ended before the host answered: %w", verb, err).
			Do("look at the session, or make the call again: under the same key nothing is done twice")
	default:
		return filesError(verb, err).Whole()
	}
}

// pause waits for a while that grows with the tries, unless the context ends.
func pause(ctx context.Context, tries int) error {
	d := min(10*time.Millisecond<<min(tries, 10), 500*time.Millisecond)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
