package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

func pidScope() uint64 { return 0 }

const zombieState = 5 // SZOMB of <sys/proc.h>

func lookup(pid int) (procInfo, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EIO) || err == nil && int(k.Proc.P_pid) != pid {
		return procInfo{}, ErrGone // no such process gives an empty answer, which the package reports as EIO
	}
	if err != nil {
		return procInfo{}, err
	}
	return fromKinfo(k), nil
}

func fromKinfo(k *unix.KinfoProc) procInfo {
	t := k.Proc.P_starttime
	return procInfo{
		pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), session: int(k.Eproc.Pgid), uid: int(k.Eproc.Ucred.Uid),
		start: uint64(t.Sec)*1e6 + uint64(t.Usec), zombie: k.Proc.P_stat == zombieState,
	}
}

func lastPID() string { return "" }

func processes() []procInfo {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	out := make([]procInfo, 0, len(list))
	for i := range list {
		out = append(out, fromKinfo(&list[i]))
	}
	return out
}

// procargs reads what the kernel keeps of a process's start: a count, the program, padding, argv, environment.
func procargs(pid int) (args, env []string) {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(b) < 4 {
		return nil, nil
	}
	argc := int(binary.LittleEndian.Uint32(b))
	_, rest, _ := bytes.Cut(b[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for part := range bytes.SplitSeq(rest, []byte{0}) {
		if len(args) < argc {
			args = append(args, string(part))
		} else {
			env = append(env, string(part))
		}
	}
	return args, env
}

func argv(pid int) []string {
	args, _ := procargs(pid)
	return args
}

// standardStreams is not to be had here.
func standardStreams(int) (in, out string) { return "", "" }

func carriers(markers map[string]bool) []Proc {
	var out []Proc
	for _, i := range processes() {
		if i.zombie {
			continue
		}
		args, env := procargs(i.pid)
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, MarkerEnv+"="); ok && markers[value] {
				out = append(out, Proc{PID: i.pid, PPID: i.ppid, Start: i.start, Argv: args})
				break
			}
		}
	}
	return out
}

// startedSince gives t by the wall clock, which is what start times are taken from here; a second is given away for a
// clock that was set meanwhile.
func startedSince(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	now := time.Now()
	elapsed := max(now.Sub(t), now.Round(0).Sub(t.Round(0)), 0)
	return uint64(now.Add(-elapsed - time.Second).UnixMicro())
}
