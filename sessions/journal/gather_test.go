package journal

import (
	"bytes"
	"errors"
	"testing"
)

// What is gathered reaches the disk in its order and its places, and what could not be written is told to whoever writes or
// syncs next, whoever met it.
func TestGather(t *testing.T) {
	var disk []byte
	calls := 0
	write := func(p []byte, off int64) error {
		calls++
		disk = overwrite(disk, off, p)
		return nil
	}
	var g gather
	add := func(text string, off int64) {
		t.Helper()
		if err := g.add([]byte(text), off, write); err != nil {
			t.Fatal(err)
		}
	}
	add("abc", 0)
	add("def", 3)
	if calls != 0 {
		t.Errorf("%d writes before anything asked for them", calls)
	}
	g.show(write)
	if calls != 1 || string(disk) != "abcdef" {
		t.Errorf("%d writes made %q", calls, disk)
	}
	add("ghi", 6)
	add("XY", 1) // goes back: what was held is written first
	if string(disk) != "abcdefghi" {
		t.Errorf("before a write elsewhere: %q", disk)
	}
	if err := g.flush(write); err != nil || string(disk) != "aXYdefghi" {
		t.Errorf("at a sync: %q, %v", disk, err)
	}
	big := bytes.Repeat([]byte("z"), gatherLimit)
	add(string(big), 9)
	add("!", 9+gatherLimit)
	if len(disk) != 9+gatherLimit {
		t.Errorf("%d bytes on the disk, more than the bound held", len(disk))
	}

	broken := errors.New("broken")
	refuse := func([]byte, int64) error { return broken }
	g.show(refuse)
	if err := g.flush(write); !errors.Is(err, broken) {
		t.Errorf("a sync after a reader met the fault: %v", err)
	}
	if err := g.flush(write); err != nil {
		t.Errorf("told twice: %v", err)
	}
	add("a", 0)
	if err := g.add([]byte("b"), 100, refuse); !errors.Is(err, broken) {
		t.Errorf("a write that had to make room: %v", err)
	}
	add("c", 200)
	g.forget()
	before := calls
	if err := g.flush(write); err != nil || calls != before {
		t.Errorf("forgotten, and then %v, %d writes", err, calls-before)
	}
}
