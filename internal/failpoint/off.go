//go:build !failpoints

package failpoint

// Enabled tells whether fail points are compiled in.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}

// Args is empty in this build.
func Args() []string { return nil }
