package journal

import (
	"errors"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// The file of the log grows for few of the commits, and all of it is gone when the log is brought in.
func TestRoomBehindTheLog(t *testing.T) {
	j := open(t, Options{})
	s := newSession(t, j)
	size := func() int64 {
		t.Helper()
		update(t, j, func(*Tx) error { return nil }) // after what the writer does once an update is answered
		n, err := j.LogSize()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	grew, was := 0, size()
	const commits = 40
	for range commits {
		if err := addEvents(j, s.ID, 1); err != nil {
			t.Fatal(err)
		}
		now := size()
		if now > was {
			grew++
		}
		was = now
	}
	if grew == 0 || grew > commits/4 {
		t.Errorf("the file grew for %d of %d commits", grew, commits)
	}
	if err := j.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := size(); n != 0 {
		t.Errorf("%d bytes are left of a log that was brought in", n)
	}
}

// disk for a log; room is how much there is of it.
type roomFile struct {
	vfs.File
	size, room int64
	calls      int
}

func (f *roomFile) WriteAt(p []byte, off int64) (int, error) {
	f.calls++
	if off > f.size {
		return 0, errors.New("a hole")
	}
	n := min(int64(len(p)), f.room-off)
	f.size = max(f.size, off+n)
	if n < int64(len(p)) {
		return int(n), errors.New("no room")
	}
	return len(p), nil
}

func (f *roomFile) Truncate(size int64) error { f.size = size; return nil }

func TestRoom(t *testing.T) {
	const pages = 100
	f := &roomFile{room: 1 << 30}
	var r room
	for end := int64(0); end < 3*pages*frameSize; {
		r.more(pages)
		if r.file == nil && f.calls > 0 {
			t.Fatal("a log that was never synced was written to")
		}
		r.file = f
		if f.size != r.size {
			t.Fatalf("the file has %d bytes, and is taken for %d", f.size, r.size)
		}
		f.size = max(f.size, end+frameSize)
		r.wrote(frameSize, end)
		end += frameSize
		if most := max(end+pages*frameSize/8, pages*frameSize); f.size > most+frameSize {
			t.Fatalf("%d bytes for a log of %d", f.size, end)
		}
	}
	if f.calls == 0 || f.calls > pages/4 {
		t.Errorf("room was made in %d writes", f.calls)
	}
	r.truncated(0)
	f.size = 0
	if r.more(pages); f.size != 0 {
		t.Errorf("room of %d bytes for an empty log", f.size)
	}
	f.size, f.room, f.calls = frameSize, frameSize+100, 0
	r.wrote(frameSize, 0)
	for range 3 {
		if r.more(pages); f.size != frameSize || f.calls != 1 {
			t.Errorf("on a full disk the file has %d bytes after %d writes", f.size, f.calls)
		}
	}
}
