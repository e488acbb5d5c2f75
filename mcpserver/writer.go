package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// errOutput is wrapped by every refusal of a writer that can no longer write.
var errOutput = errors.New("output ended")

// lineWriter writes whole messages to the client in the order in which they were sent, one a line. Its queue is short:
// a client that does not read slows down who writes, and nothing is dropped.
type lineWriter struct {
	queue   chan []byte
	stop    chan struct{} // closed by finish: write what is queued, then end
	dead    chan struct{} // closed when nothing can be written any more; err says why
	done    chan struct{} // closed when run has returned
	out     io.Writer
	dieOnce sync.Once
	err     error
}

func newLineWriter(out io.Writer) *lineWriter {
	w := &lineWriter{queue: make(chan []byte, 64), stop: make(chan struct{}), dead: make(chan struct{}),
		done: make(chan struct{}), out: out}
	go w.run()
	return w
}

// send queues one message. It returns when the message has its place in the order, or the context ends before, or the
// output is gone.
func (w *lineWriter) send(ctx context.Context, line []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case w.queue <- line:
		return nil
	case <-w.dead:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *lineWriter) run() {
	defer close(w.done)
	b := bufio.NewWriterSize(w.out, 64<<10)
	write := func(line []byte) bool {
		_, err := b.Write(escapeSeparators(line))
		if err == nil {
			err = b.WriteByte('\n')
		}
		if err == nil && len(w.queue) == 0 {
			err = b.Flush()
		}
		if err != nil {
			w.die(errors.Join(errOutput, err))
		}
		return err == nil
	}
	for {
		select {
		case line := <-w.queue:
			if !write(line) {
				return
			}
		case <-w.dead:
			return
		case <-w.stop:
			for {
				select {
				case line := <-w.queue:
					if !write(line) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

// finish writes what is queued and ends, or aborts when the client does not take it within the grace.
func (w *lineWriter) finish(grace time.Duration) {
	close(w.stop)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-w.done:
		return
	case <-w.dead:
	case <-t.C:
	}
	w.abort(errors.New("the client does not read"))
}

// abort ends the writing at once. A write that hangs in a file without deadlines is left behind.
func (w *lineWriter) abort(why error) {
	w.die(errors.Join(errOutput, why))
	if interrupt(w.out) {
		<-w.done
	}
}

// failure tells why nothing can be written any more, nil while something can.
func (w *lineWriter) failure() error {
	select {
	case <-w.dead:
		return w.err
	default:
		return nil
	}
}

func (w *lineWriter) die(err error) {
	w.dieOnce.Do(func() {
		w.err = err
		close(w.dead)
	})
}

// lineSeparators are U+2028 and U+2029, which some readers (Python's splitlines) take for line ends. They can only stand
// inside strings, where the escape means the same.
var lineSeparators = []byte("\xe2\x80")

func escapeSeparators(line []byte) []byte {
	if !bytes.Contains(line, lineSeparators) {
		return line
	}
	line = bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(line, []byte("\u2029"), []byte(`\u2029`))
}
