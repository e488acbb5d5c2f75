package host

import (
	"context"
	"errors"
	"time"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// limits are how long a bridge may do what a living one does not.
type limits struct {
	beat  time.Duration // between two pings of a bridge that says nothing
	beats int           // pings that it may leave without an answer
	mute  time.Duration // without a greeting
	stop  time.Duration // between its kill and the proof that it is gone
	apart time.Duration // between two tries to be served by a bridge that refused
}

// usually is for a machine under load as well. All of it is counted in steps that the host itself lives through: what
// stops host and bridge alike, as the sleep of a machine or the pause of a container does, is nobody's silence.
var usually = limits{beat: 2 * time.Second, beats: 5, mute: 2 * bridge.GreetLimit, stop: 15 * time.Second, apart: 5 * time.Second}

// process is what a tender needs of its bridge's process.
type process interface {
	Record() sandbox.Record
	Done() <-chan struct{}
	Stop(context.Context) sandbox.Verdict
	Release()
}

var _ process = (*sandbox.Process)(nil)

var errMute = sessions.Errorf(sessions.CodeInternal, "the session's bridge lives but does not answer").
	Do("resume the session; nothing is sent again by itself")

// silence is how long a bridge has not greeted.
type silence time.Duration

// after counts one failed try, for no more than its own limit.
func (s *silence) after(took time.Duration) { *s += silence(min(took, bridge.GreetLimit)) }

// slowest is how many times rarer than at first a bridge is asked that answers and has nothing else to say: a session
// in which nothing happens wakes nobody up all the time, and whoever waits for it makes it lively again first.
const slowest = 32

// pulse asks a bridge that says nothing whether it lives. Frames are a sign of life too, and while they are not read its
// silence says nothing.
type pulse struct {
	link  *bridge.Link
	timer *time.Timer
	least time.Duration // between two questions
	wait  time.Duration // until the next one, once there is an answer
	most  int
	open  int // pings without an answer
}

func newPulse(link *bridge.Link, l limits) *pulse {
	return &pulse{link: link, timer: time.NewTimer(l.beat), least: l.beat, wait: l.beat, most: l.beats}
}

func (p *pulse) stop() { p.timer.Stop() }

// beat is due whenever the timer fires; reading tells whether frames are taken at present.
func (p *pulse) beat(reading bool) error {
	p.timer.Reset(p.least) // an answer is due sooner than the next question
	switch {
	case !reading || !p.link.Hello.Pings:
		p.open = 0
		return nil
	case p.open >= p.most:
		return errMute
	}
	p.open++
	return p.link.Ping()
}

// answered is due with every pong: who answers is asked more rarely from then on.
func (p *pulse) answered() {
	if p.open > 0 {
		p.open = 0
		p.wait = min(2*p.wait, slowest*p.least)
		p.timer.Reset(p.wait)
	}
}

// lively lets the next question come as soon as at first: something was said, or asked.
func (p *pulse) lively() {
	if p.wait > p.least {
		p.wait = p.least
		p.timer.Reset(p.least)
	}
}

// kill ends the bridge. gone is false when that is not proven in time, with what is known; the host's end proves nothing
// and gives no verdict.
func (t *tender) kill() (v sandbox.Verdict, gone bool) {
	ctx, cancel := context.WithTimeout(t.h.life, t.h.limits.stop)
	defer cancel()
	v = t.proc.Stop(ctx)
	select {
	case <-t.proc.Done():
		return v, true
	default:
		return v, t.h.life.Err() != nil
	}
}

// refusedBy is why a living bridge does not serve this host, nil when err says nothing of the kind.
func refusedBy(err error) *sessions.Error {
	var e *sessions.Error
	if errors.Is(err, bridge.ErrRefused) && errors.As(err, &e) {
		return e
	}
	return nil
}

// apart notes that the bridge does not serve this host, or does again (nil). It lives on, with what it has; a host that it
// serves takes it up.
func (t *tender) apart(why *sessions.Error) {
	t.h.mu.Lock()
	was := t.refused
	t.refused = why
	t.h.mu.Unlock()
	if why == nil || was != nil {
		return
	}
	t.h.o.Log.Warn().Str("session", t.session).Err(why).Msg("a bridge does not serve this host, and is left alone")
	if why.Code != sessions.CodeUnsupported {
		return
	}
	if err := t.h.update(t.h.life, func(tx *journal.Tx, c *changes) error {
		a := applier{h: t.h, session: t.session, generation: t.generation}
		a.add(sessions.Event{Kind: sessions.EventWarning, At: tx.Now(), Code: why.Code, Text: why.Message,
			Data: map[string]any{"action": unservedAction}})
		return a.flush(tx, c)
	}); err != nil {
		t.h.o.Log.Warn().Err(err).Str("session", t.session).Msg("that a bridge does not serve this host could not be journalled")
	}
}

const unservedAction = "use the version of baton that started it; or close the session here, which stops its agent, and resume it"

// unserved refuses what would have to be given to a bridge that does not serve this host.
func (h *Host) unserved(session string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tenders[session]
	if t == nil || t.refused == nil {
		return nil
	}
	if t.refused.Code == sessions.CodeFenced {
		return t.refused
	}
	return sessions.Errorf(sessions.CodeUnsupported, "the bridge of session %s goes on and does not serve this host: %s", session, t.refused.Message).
		Do(unservedAction)
}

// unwanted tells whether the session is to end.
func (t *tender) unwanted() bool {
	if t.asked() {
		return true
	}
	closing := false
	err := t.h.j.View(t.h.life, func(tx *journal.Tx) error {
		s, err := tx.GetSession("", t.session)
		closing = err == nil && s.State == sessions.SessionClosing
		return err
	})
	return err == nil && closing
}
