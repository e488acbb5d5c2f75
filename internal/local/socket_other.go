//go:build !linux

package local

import (
	"os"
	"syscall"
)

// maxPath is what fits into sun_path of the BSDs (104) with its closing zero.
const maxPath = 103

// longAddress has no way around the limit here.
func longAddress(_ *os.File, path string) (string, error) { return "", tooLong(path) }

func beforeBind(_, _ string, _ syscall.RawConn) error { return nil }

// afterBind closes what bind left open; until then the private folder alone keeps others out.
func afterBind(path string) error { return os.Chmod(path, 0o600) }
