package journal

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// dropRoot takes this goroutine's rights over other users' files away until the test ends.
func dropRoot(t *testing.T) {
	runtime.LockOSThread()
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Error(err)
			return // the thread ends with its goroutine
		}
		runtime.UnlockOSThread()
	})
}
