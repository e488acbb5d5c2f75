package journal

import (
	"sync"

	"github.com/ncruces/go-sqlite3/vfs"
)

// gather holds what SQLite writes at the end of the log until the log is synced, read, or changed in another way, and then
// writes it at once. SQLite writes a page of a commit in two calls, its head and its content, and a commit of one intent
// has a dozen pages. All of the journal's connections share it, so that none reads the log without what another wrote.
type gather struct {
	mu   sync.Mutex
	at   int64 // where buf begins
	buf  []byte
	lost error // why what was held is gone; told to whoever writes or syncs next
	room room
}

// gatherLimit bounds what is held back: a commit of many pages is written in steps of this size.
const gatherLimit = 256 << 10

// add takes p for the offset, and returns the error of what had to be written before.
func (g *gather) add(p []byte, off int64, write func([]byte, int64) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if off != g.at+int64(len(g.buf)) || len(g.buf)+len(p) > gatherLimit {
		g.flushLocked(write)
		g.at = off
	}
	if err := g.lost; err != nil {
		g.lost, g.buf = nil, g.buf[:0]
		return err
	}
	g.buf = append(g.buf, p...)
	return nil
}

// show writes what is held, for a reader. What fails is the writer's to know: the reader finds what the disk has.
func (g *gather) show(write func([]byte, int64) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flushLocked(write)
}

// flush writes what is held, and returns the error of what was to be written since the last that was told.
func (g *gather) flush(write func([]byte, int64) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flushLocked(write)
	err := g.lost
	g.lost = nil
	return err
}

func (g *gather) flushLocked(write func([]byte, int64) error) {
	if len(g.buf) == 0 {
		return
	}
	if err := write(g.buf, g.at); err == nil {
		g.room.wrote(len(g.buf), g.at)
	} else if g.lost == nil {
		g.lost = err
	}
	g.at, g.buf = g.at+int64(len(g.buf)), g.buf[:0]
}

// forget drops what is held and what was lost: the file is opened anew.
func (g *gather) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.buf, g.lost, g.room = 0, g.buf[:0], nil, room{}
}

// truncated notes that the log was cut off, and synced by which of its files it was synced last.
func (g *gather) truncated(size int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room.truncated(size)
}

func (g *gather) synced(by vfs.File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room.file = by
}

// makeRoom has the next commits find room in the file, see room.
func (g *gather) makeRoom(pages int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room.more(pages)
}
