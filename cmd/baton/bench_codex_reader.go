package main

import (
	"context"
	"fmt"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// codexReader reads a session of Codex by cursor.
type codexReader struct {
	h       *benchHome
	session string
	cursor  string
	seq     int64
	pieces  int    // bytes of text that streamed
	settled string // the last command that ended
}

// turn runs a prompt and reads until its end, which must have brought so many bytes of text.
func (r *codexReader) turn(ctx context.Context, prompt string, bytes int) (time.Duration, error) {
	if err := r.read(ctx); err != nil {
		return 0, err
	}
	r.pieces = 0
	began := time.Now()
	if err := r.h.follow(ctx, r.session, prompt, &r.cursor, &r.settled, r.read); err != nil {
		return 0, err
	}
	if r.pieces != bytes {
		return 0, fmt.Errorf("%d bytes of %d streamed", r.pieces, bytes)
	}
	return time.Since(began), nil
}

// read reads on to the end of what is there now.
func (r *codexReader) read(ctx context.Context) error {
	for more := true; more; {
		p, err := r.h.Read(ctx, benchCaller, sessions.ReadArgs{SessionID: r.session, After: r.cursor, Limit: sessions.MaxReadLimit, MaxChars: sessions.MaxChars})
		if err != nil {
			return err
		}
		for _, e := range p.Events {
			if r.seq++; e.Seq != r.seq {
				return fmt.Errorf("event %d follows event %d", e.Seq, r.seq-1)
			}
			switch {
			case e.Kind == sessions.EventText && !e.Final:
				r.pieces += len(e.Text)
			case e.Kind == sessions.EventCommandSettled && e.Settled != nil:
				if e.Settled.State != sessions.CommandCompleted {
					return fmt.Errorf("the turn ended as %s: %s", e.Settled.State, e.Settled.Reason)
				}
				r.settled = e.Command
			}
		}
		r.cursor, more = p.Cursor, p.HasMore
	}
	return nil
}
