//go:build !race

package journal

const slowed = false
