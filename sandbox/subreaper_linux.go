package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// emptyName is the name of a bridge that has no descendant and will have none. The kernel lets a process write its own
// name alone, and shows it to everybody, so that whoever sees it on a living bridge needs to trust no message, and not to
// be its parent. At most 15 bytes count.
const emptyName = "baton: empty"

func (p place) sayEmpty() error {
	if p.name == nil {
		return errors.ErrUnsupported
	}
	_, err := p.name.WriteString(emptyName)
	return err
}

// saysEmpty reads what sayEmpty wrote.
func saysEmpty(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, b, _ = bytes.Cut(b, []byte("("))
	return string(b[:max(bytes.LastIndexByte(b, ')'), 0)]) == emptyName
}

// children lists our children, zombies too. One that is being born or adopted meanwhile may be missing.
func children() []int {
	var out []int
	tasks, _ := os.ReadDir("/proc/self/task")
	told := false
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil {
			continue // that thread ended, or the kernel lacks CONFIG_PROC_CHILDREN
		}
		told = true
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	if told {
		return out
	}
	for _, i := range processes() {
		if i.ppid == os.Getpid() {
			out = append(out, i.pid)
		}
	}
	return out
}

// orphanReturns proves that who loses its parent among our descendants becomes our child.
func orphanReturns() error {
	gate, opener, err := os.Pipe()
	if err != nil {
		return err
	}
	defer opener.Close()
	parent, err := kin(stageParent, gate)
	gate.Close()
	if err != nil {
		return fmt.Errorf("the parent of the orphan: %w", err)
	}
	if status, err := await(parent); err != nil || status != 0 {
		return errors.Join(fmt.Errorf("the parent of the orphan ended with status %#x", uint32(status)), err)
	}
	opener.Close() // the orphan lived until here
	if _, err := await(-1); err != nil {
		return fmt.Errorf("an orphan did not come back: %w", err)
	}
	return nil
}

// kin executes this program as one that takes part in a trial.
func kin(s stage, in *os.File) (pid int, err error) {
	b, err := json.Marshal(setup{Stage: s})
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec(program(), os.Args, &syscall.ProcAttr{Dir: "/", Env: []string{setupEnv + "=" + string(b)},
		Files: []uintptr{in.Fd(), null.Fd(), null.Fd()}})
}

func playKin(s setup) error {
	if s.Stage == stageParent {
		if _, err := kin(stageOrphan, os.Stdin); err != nil {
			return fmt.Errorf("sandbox: the orphan of a trial: %w", err)
		}
	} else if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("sandbox: the orphan of a trial: %w", err)
	}
	os.Exit(0)
	return nil
}

func await(pid int) (status unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}
