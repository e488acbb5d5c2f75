package term

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Page gives what write writes to the user's pager (PAGER, else less), which shows it on out. It waits for the pager to
// end. A pager that is left early is no error, and neither is one that is not there: then the text is written to out.
func Page(ctx context.Context, out *os.File, write func(io.Writer) error) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", cmp.Or(os.Getenv("PAGER"), "less"))
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // end on one screen, show colours, leave the text there
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return write(out)
	}
	err = write(in)
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return errors.Join(err, in.Close(), ended(cmd.Wait()))
}

// ended takes the status of a pager that was left for what it is.
func ended(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}
