//go:build weaksync

package journal

// synchronous in a build that shows what the power-cut suite is worth: the log is synced at checkpoints only, so that
// acknowledged commits get lost. The suite must fail with it:
//
//	go test -tags weaksync -run TestPowerCut ./sessions/journal
const synchronous = "NORMAL"
