package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/sessions"
)

// benchSize is the size of one streamed update.
const benchSize = 200

// stream measures a turn of many small updates, from the prompt to a reader's having read its end by cursor, against the
// pipe of the same agent, from the prompt to the line that ends the turn. Runs of both are taken in turn.
func (b *bench) stream(ctx context.Context) error {
	n, rounds := b.pick(20_000, 500), b.pick(5, 1)
	for _, runner := range []string{benchCodex, benchCursor} {
		if err := b.streamOf(ctx, runner, n, rounds); err != nil {
			return fmt.Errorf("%s: %w", runner, err)
		}
	}
	return nil
}

func (b *bench) streamOf(ctx context.Context, runner string, n, rounds int) (err error) {
	h, err := b.home("stream-" + runner)
	if err != nil {
		return err
	}
	s, err := h.create(ctx, runner)
	if err != nil {
		return errors.Join(err, h.end(ctx))
	}
	defer func() { err = errors.Join(err, h.end(ctx, s.SessionID)) }()
	var piped, streamed []float64
	r := &benchReader{h: h, session: s.SessionID}
	if err := r.read(ctx); err != nil {
		return err
	}
	for range rounds {
		took, err := benchPipe(ctx, h, runner, n)
		if err != nil {
			return fmt.Errorf("the agent's own pipe: %w", err)
		}
		piped = append(piped, took.Seconds())
		if took, err = r.turn(ctx, n); err != nil {
			return err
		}
		streamed = append(streamed, took.Seconds())
	}
	// What was read is what is there, also for the next host.
	if err := h.kill(ctx); err != nil {
		return err
	}
	again := &benchReader{h: h, session: s.SessionID}
	if err := again.read(ctx); err != nil {
		return fmt.Errorf("after a kill of the host: %w", err)
	}
	if again.seq != r.seq || again.texts != r.texts || again.tools != r.tools || again.sum != r.sum {
		return fmt.Errorf("after a kill of the host %d events are read, and %d texts and %d tools; before it %d, %d and %d",
			again.seq, again.texts, again.tools, r.seq, r.texts, r.tools)
	}
	value, floor := median(streamed), median(piped)
	b.report.add(benchFigure{Case: fmt.Sprintf("%d updates, %s", n, runner), Value: value, Floor: floor, Unit: "s", atMost: 4,
		Note: fmt.Sprintf("%.0f updates/s; none lost, also after a kill of the host", float64(n)/value)})
	return nil
}

// benchReader reads a session by cursor and checks what it reads.
type benchReader struct {
	h       *benchHome
	session string

	cursor       string
	seq          int64
	texts, tools int // updates seen
	sum          uint64
	settled      string // the last command that ended
	rest         string // of a text that is not yet whole updates
}

// turn runs a burst and reads until its end.
func (r *benchReader) turn(ctx context.Context, n int) (time.Duration, error) {
	texts, tools := r.texts, r.tools
	began := time.Now()
	if err := r.h.follow(ctx, r.session, fmt.Sprintf("[burst %d %d]", n, benchSize), &r.cursor, &r.settled, r.read); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if texts, tools = r.texts-texts, r.tools-tools; texts != n-n/5 || tools != n/5 || r.rest != "" {
		return 0, fmt.Errorf("%d texts and %d tool calls of %d updates arrived", texts, tools, n)
	}
	return took, nil
}

// follow sends a prompt, and reads whenever there is something to read until its command has ended; cursor and settled are
// what read has come to.
func (h *benchHome) follow(ctx context.Context, session, text string, cursor, settled *string, read func(context.Context) error) error {
	sent, err := h.Send(ctx, benchCaller, sessions.SendArgs{SessionID: session, Text: text})
	if err != nil {
		return err
	}
	for *settled != sent.Command.CommandID {
		wait := 20
		if _, err := h.Wait(ctx, benchCaller, sessions.WaitArgs{SessionIDs: []string{session}, Until: "event", WaitSeconds: &wait,
			After: map[string]string{session: *cursor}}); err != nil {
			return err
		}
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads on to the end of what is there now.
func (r *benchReader) read(ctx context.Context) error {
	for more := true; more; {
		p, err := r.h.Read(ctx, benchCaller, sessions.ReadArgs{SessionID: r.session, After: r.cursor, Limit: sessions.MaxReadLimit, MaxChars: sessions.MaxChars})
		if err != nil {
			return err
		}
		if p.Gap != nil {
			return fmt.Errorf("events %d to %d cannot be read: %s", p.Gap.From, p.Gap.To, p.Gap.Reason)
		}
		for _, e := range p.Events {
			if err := r.take(e); err != nil {
				return err
			}
		}
		r.cursor, more = p.Cursor, p.HasMore
	}
	return nil
}

func (r *benchReader) take(e sessions.Event) error {
	if r.seq++; e.Seq != r.seq {
		return fmt.Errorf("event %d follows event %d", e.Seq, r.seq-1)
	}
	switch {
	case e.Kind == sessions.EventText && !e.Final:
		r.rest += e.Text
		for ; len(r.rest) >= benchSize; r.rest = r.rest[benchSize:] {
			if err := r.update(r.rest[:benchSize]); err != nil {
				return err
			}
			r.texts++
		}
	case e.Kind == sessions.EventToolCompleted && e.Tool != nil:
		if err := r.update(strings.TrimSpace(e.Tool.Output)); err != nil {
			return err
		}
		r.tools++
	case e.Kind == sessions.EventCommandSettled && e.Settled != nil:
		if e.Settled.State != sessions.CommandCompleted {
			return fmt.Errorf("the turn ended as %s: %s", e.Settled.State, e.Settled.Reason)
		}
		r.settled = e.Command
	case e.Kind == sessions.EventGap:
		return fmt.Errorf("there is a gap: %+v", e.Gap)
	}
	return nil
}

// benchFiller is what every update ends with.
var benchFiller = directive.BurstText(0, benchSize)[8:]

// update checks that an update is whole, and counts it into the sum of their numbers.
func (r *benchReader) update(text string) error {
	if len(text) != benchSize || text[8:] != benchFiller {
		return fmt.Errorf("an update arrived as %.60q", text)
	}
	i, err := strconv.ParseUint(text[:7], 10, 64)
	r.sum += i
	return err
}
