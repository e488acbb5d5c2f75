//go:build !weaksync

package journal

// synchronous is SQLite's setting for every connection: the log is synced at each commit.
const synchronous = "FULL"
