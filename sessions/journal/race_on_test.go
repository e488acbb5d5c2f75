//go:build race

package journal

// slowed tells that the race detector is on, which makes the database engine some twenty times slower.
const slowed = true
