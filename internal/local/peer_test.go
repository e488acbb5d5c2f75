package local

import (
	"errors"
	"os"
	"testing"
)

func TestSameUser(t *testing.T) {
	for _, c := range []struct {
		uid  int
		pass bool
	}{{os.Getuid(), true}, {os.Getuid() + 1, false}} {
		if err := sameUser(peer{uid: c.uid, pid: 7}); (err == nil) != c.pass || (err != nil && !errors.Is(err, ErrPeer)) {
			t.Errorf("uid %d: %v", c.uid, err)
		}
	}
}
