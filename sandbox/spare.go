//go:build !nokill

package sandbox

// spared is true in a build that shows what the tests of this package are worth.
const spared = false
