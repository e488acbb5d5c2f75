package cli

import (
	"context"
	"sort"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// reader reads a session's events in order, each once, from a cursor.
type reader struct {
	f     *Front
	id    string
	after string // the cursor
	kinds []sessions.EventKind
	chars int // budget of a page's texts; 0: the largest
}

func (f *Front) reader(id string) *reader { return &reader{f: f, id: id} }

// page reads the next events; more tells that others are there already. What can no longer be read comes as an event of
// its own.
func (r *reader) page(ctx context.Context, limit int) (evs []sessions.Event, more bool, err error) {
	chars := r.chars
	if chars == 0 {
		chars = sessions.MaxChars
	}
	res, err := r.f.api.Read(ctx, r.f.who, sessions.ReadArgs{SessionID: r.id, After: r.after, Limit: limit, Kinds: r.kinds, MaxChars: chars})
	if err != nil {
		return nil, false, err
	}
	r.after = res.Cursor
	if res.Gap != nil {
		evs = append(evs, sessions.Event{Session: r.id, Kind: sessions.EventGap, Gap: res.Gap})
	}
	return append(evs, res.Events...), res.HasMore, nil
}

// caughtUp gives all events that there are to see, one by one; it stops when see says false.
func (r *reader) caughtUp(ctx context.Context, see func(*sessions.Event) (bool, error)) error {
	for {
		evs, more, err := r.page(ctx, sessions.MaxReadLimit)
		if err != nil {
			return err
		}
		for i := range evs {
			if goOn, err := see(&evs[i]); err != nil || !goOn {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// stir waits until there is an event behind the cursor, for as long as one call may take, and shows the session as it
// then is.
func (r *reader) stir(ctx context.Context, seconds int) (*sessions.Session, error) {
	a := sessions.WaitArgs{SessionIDs: []string{r.id}, Until: "event", WaitSeconds: &seconds, MaxChars: 1,
		After: map[string]string{r.id: r.after}}
	if r.after == "" {
		a.After[r.id] = sessions.EncodeCursor(r.id, 0)
	}
	res, err := r.f.api.Wait(ctx, r.f.who, a)
	if err != nil {
		return nil, err
	}
	if len(res.Sessions) != 1 {
		return nil, sessions.Errorf(sessions.CodeInternal, "the host showed %d sessions for %s", len(res.Sessions), r.id)
	}
	return &res.Sessions[0].Session, nil
}

// since puts the cursor before the first event that happened at a time or later. Events are in the order of their time.
func (r *reader) since(ctx context.Context, end int64, at time.Time) error {
	var failed error
	n := sort.Search(int(end), func(i int) bool {
		if failed != nil {
			return true
		}
		probe := reader{f: r.f, id: r.id, after: sessions.EncodeCursor(r.id, int64(i)), chars: 1}
		evs, _, err := probe.page(ctx, 1)
		if err != nil {
			failed = err
			return true
		}
		for _, e := range evs {
			if e.Kind != sessions.EventGap {
				return !e.At.Before(at)
			}
		}
		return true // nothing follows
	})
	r.after = sessions.EncodeCursor(r.id, int64(n))
	return failed
}

// told tells whether a person is told of an event by a line or a passage of its own: a message counts once, when it is
// whole, and not by its pieces.
func told(e *sessions.Event) bool {
	switch e.Kind {
	case sessions.EventText, sessions.EventPlan:
		return e.Final
	case sessions.EventReasoning, sessions.EventUsage, sessions.EventTurnStarted, sessions.EventTurnCompleted, sessions.EventToolUpdated,
		sessions.EventToolStarted, sessions.EventCommandAccepted:
		return false
	}
	return true
}

// tail puts the cursor so that n things that people are told of follow it, or all where there are fewer. It reads from
// the end in windows that grow.
func (r *reader) tail(ctx context.Context, end int64, n int, counts func(*sessions.Event) bool) error {
	var starts []int64 // numbers of what counts, ascending
	to := end
	for window := int64(sessions.MaxReadLimit); len(starts) < n && to > 0; window *= 2 {
		from := max(0, to-window)
		w := reader{f: r.f, id: r.id, after: sessions.EncodeCursor(r.id, from)}
		var found []int64
		last := int64(0)
		err := w.caughtUp(ctx, func(e *sessions.Event) (bool, error) {
			if e.Kind != sessions.EventGap && e.Seq > to {
				return false, nil
			}
			if e.Kind != sessions.EventGap && counts(e) {
				found = append(found, e.Seq)
			}
			last = e.Seq
			return last < to, nil
		})
		if err != nil {
			return err
		}
		starts = append(found, starts...)
		to = from
	}
	switch {
	case n == 0:
		r.after = sessions.EncodeCursor(r.id, end)
	case len(starts) > n:
		r.after = sessions.EncodeCursor(r.id, starts[len(starts)-n]-1)
	case len(starts) == n && to > 0:
		r.after = sessions.EncodeCursor(r.id, starts[0]-1)
	default:
		r.after = ""
	}
	return nil
}
