//go:build !linux

package bridge

import "errors"

// watchFor is for Linux alone, as is every policy that names folders to watch.
func watchFor(string, []string, func()) (stop func(), err error) {
	return nil, errors.ErrUnsupported
}
