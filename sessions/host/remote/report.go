package remote

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

// reportVariable names the descriptor on which a host that cannot start says why, to whoever started it. Its log may be
// on the very disk that is the reason.
const reportVariable = "BATON_START_REPORT"

// maxReport bounds what is read of a report.
const maxReport = 64 << 10

// Reported runs what a process started by Spawn is to be, and tells its error to the one that started it.
func Reported(run func() error) error {
	fd, err := strconv.Atoi(os.Getenv(reportVariable))
	if err != nil || fd < 3 {
		return run()
	}
	os.Unsetenv(reportVariable)
	unix.CloseOnExec(fd) // an end that outlives this process would keep the reader waiting
	f := os.NewFile(uintptr(fd), "report")
	defer f.Close()
	if err := run(); err != nil {
		json.NewEncoder(f).Encode(sessions.AsError(err)) // nobody listens to a host that has long been running
		return err
	}
	return nil
}

// reported reads what an ended process said of its end, nil when it said nothing.
func reported(r *os.File) *sessions.Error {
	if r.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r, maxReport))
	if err != nil {
		return nil
	}
	var e sessions.Error
	if json.Unmarshal(text, &e) != nil || !e.Code.Known() {
		return nil
	}
	return &e
}

// filesError makes an error of Baton's own files one of the table; what says what could not be done.
func filesError(what string, err error) *sessions.Error {
	var known *sessions.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, syscall.ENAMETOOLONG):
		return sessions.Errorf(sessions.CodeLimitExceeded, "%s: %w", what, err).Do("name a shorter folder with BATON_HOME")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return sessions.Errorf(sessions.CodeStorageFull, "%s: %w", what, err).Do("free space on that disk, then try again")
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EIO),
		errors.Is(err, syscall.ENOTDIR), errors.Is(err, local.ErrNotPrivate):
		return sessions.Errorf(sessions.CodeStorageFailed, "%s: %w", what, err).Do("correct what is named, or name another folder with BATON_HOME")
	}
	return sessions.Errorf(sessions.CodeInternal, "%s: %w", what, err)
}
