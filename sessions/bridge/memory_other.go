//go:build !linux

package bridge

import "runtime/debug"

// rest gives back the free part of the heap.
func rest() { debug.FreeOSMemory() }
