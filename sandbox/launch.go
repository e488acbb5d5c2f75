package sandbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Command is the hidden sub-command whose first act must be Enter. Probe runs it too.
const Command = "bridge"

// killLimit bounds the wait for a bridge that was killed because its start failed.
const killLimit = 5 * time.Second

// enterLimit bounds the time between the clone and the bridge's word that it has entered.
const enterLimit = 30 * time.Second

// replacedTries is how often a bridge is started before a file that another one replaces each time is a failure.
const replacedTries = 4

// errReplaced tells that a path led to one file when the host looked and to another when the bridge did.
var errReplaced = errors.New("it is not the file any more that the host meant")

// Launch says how to start a bridge.
type Launch struct {
	Args  []string   // command line after the program's name; Args[0] is normally Command
	Files []*os.File // become descriptors 3, 4, ...; every other descriptor is closed
	Log   *os.File   // descriptors 1 and 2; nil: /dev/null
	Rung  Rung       // "": the best that Probe found
	// Mask lists what nothing of the session may see: absolute paths that exist. Without a mount namespace they
	// cannot be hidden; Record.MountNamespace tells.
	Mask []string
	// Filesystem is the policy for files, enforced by the mount namespace, on macOS by Seatbelt, which hides what Mask
	// lists too; nil: none. Other rungs refuse it.
	Filesystem *Filesystem
	// MaxProcesses caps the processes and threads of the session on rung pid_namespace; 0: no cap of its own. The kernel
	// exempts root.
	MaxProcesses uint64
	Dir          string // working directory of the bridge; "": /

	pinned func() // called when the files of the policy were looked at; nil: nothing to do
}

// Start launches a bridge and returns when it has entered its rung: from then on Enter has returned in it. ctx ends the
// start, not the bridge.
//
// The bridge gets a small environment of its own (locale, PATH, HOME and the like); what the agent needs is handed over
// later, not inherited.
func Start(ctx context.Context, l Launch) (*Process, error) {
	if len(l.Args) == 0 {
		return nil, errors.New("sandbox: a launch needs a command line")
	}
	rung, err := choose(ctx, l.Rung)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	p, err := launch(ctx, l, rung, false)
	// Programs replace their files by renaming others over them, so one that was pinned may be another by the time that
	// it is mounted upon. The next start looks at the paths anew, with all that it refuses.
	for tries := 1; errors.Is(err, errReplaced) && tries < replacedTries; tries++ {
		p, err = launch(ctx, l, rung, false)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: start on rung %s: %w", rung, err)
	}
	return p, nil
}

func launch(ctx context.Context, l Launch, rung Rung, trial bool) (*Process, error) {
	if _, inside := os.LookupEnv(setupEnv); inside {
		return nil, fmt.Errorf("this process was launched as %q and never entered", Command)
	}
	s := setup{Stage: stagePrepare, Rung: rung, Files: len(l.Files), Dir: "/", Root: os.Geteuid() == 0, Trial: trial}
	if l.Dir != "" {
		s.Dir = l.Dir
	}
	path, argv := program(), append([]string{"baton"}, l.Args...)
	switch {
	case rung == PIDNamespace:
		var err error
		if s.Mask, err = masks(l.Mask); err != nil {
			return nil, err
		}
		if s.Plan, err = l.Filesystem.pin(); err != nil {
			return nil, err
		}
		s.MaxProcesses = l.MaxProcesses
	case l.Filesystem != nil && hasSeatbelt:
		var err error
		if s.Mask, err = masks(l.Mask); err != nil {
			return nil, err
		}
		if s.Plan, err = l.Filesystem.pin(); err != nil {
			return nil, err
		}
		profile, err := s.Plan.profile(s.Mask)
		if err != nil {
			return nil, err
		}
		path, argv = seatbelt, append([]string{"sandbox-exec", "-p", profile, path}, l.Args...)
	case l.Filesystem != nil:
		return nil, fmt.Errorf("a filesystem policy needs a mount namespace: %w", errors.ErrUnsupported)
	}
	if l.pinned != nil {
		l.pinned()
	}
	record := Record{Rung: rung, MountNamespace: rung == PIDNamespace, Marker: rand.Text(), PIDScope: pidScope()}
	var err error
	if record.BootID, err = bootID(); err != nil {
		return nil, fmt.Errorf("read the boot id: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	report, reporter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	log := l.Log
	if log == nil {
		log = null
	}
	files := append([]*os.File{null, log, log}, l.Files...)
	pid, h, err := clone(path, argv, s.environ(record.Marker), s.Dir, append(files, reporter), rung)
	reporter.Close()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.signal(syscall.SIGKILL)
			patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), killLimit)
			h.wait(patient)
			cancel()
			h.reap()
			h.close()
		}
	}()
	record.PID, record.PidfdInode = pid, h.inode
	if info, infoErr := readStart(pid); infoErr == nil {
		record.Start = info
	} else if h.inode == 0 {
		err = fmt.Errorf("read the start time of process %d: %w", pid, infoErr)
		return nil, err
	}
	if err = entered(ctx, report); err != nil {
		return nil, err
	}
	return newProcess(record, h), nil
}

// entered waits for the bridge's word.
func entered(ctx context.Context, report *os.File) error {
	limited, cancel := context.WithTimeoutCause(ctx, enterLimit, fmt.Errorf("the bridge did not report within %s", enterLimit))
	defer cancel()
	defer context.AfterFunc(limited, func() { report.SetReadDeadline(time.Unix(1, 0)) })()
	line, err := bufio.NewReader(io.LimitReader(report, 64<<10)).ReadBytes('\n')
	if limited.Err() != nil {
		return context.Cause(limited)
	}
	var said struct {
		Error    string `json:"error"`
		Replaced bool   `json:"replaced"`
	}
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		return errors.New("the bridge ended before it reported")
	}
	switch {
	case said.Replaced:
		return replaced(said.Error)
	case said.Error != "":
		return errors.New(said.Error)
	}
	return nil
}

// replaced is what a bridge said that is an errReplaced.
type replaced string

func (r replaced) Error() string { return string(r) }

func (replaced) Is(err error) bool { return err == errReplaced }

// program is what a bridge executes. On Linux /proc/self/exe is the running file even after it was replaced or deleted.
func program() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// mask is one path to hide, pinned by its identity so that nobody can put a symbolic link in its place meanwhile.
type mask struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

func masks(paths []string) ([]mask, error) {
	var out []mask
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("mask %q is not absolute", p)
		}
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return nil, fmt.Errorf("mask: %w", err)
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(real, &st); err != nil {
			return nil, fmt.Errorf("mask %s: %w", real, err)
		}
		out = append(out, mask{Path: real, Dev: uint64(st.Dev), Ino: st.Ino})
	}
	return out, nil
}

// setup is what the host tells Enter.
type setup struct {
	Stage stage  `json:"stage"`
	Rung  Rung   `json:"rung"`
	Files int    `json:"files"` // descriptors from 3 on that are the bridge's; the next one takes the report
	Mask  []mask `json:"mask,omitempty"`
	Plan  *plan  `json:"plan,omitempty"`
	Dir   string `json:"dir"`
	Root  bool   `json:"root,omitempty"`  // the host is root, the inner user is not
	Trial bool   `json:"trial,omitempty"` // end as soon as everything is known to work

	MaxProcesses uint64 `json:"max_processes,omitempty"`
}

type stage string

const (
	stagePrepare stage = "prepare" // holds the namespace's capabilities, and gives them up by executing itself
	stageEntered stage = "entered"

	stageParent stage = "parent" // of a trial of rung subreaper: starts the orphan and ends
	stageOrphan stage = "orphan" // ends when its input does
)

const setupEnv = "BATON_SANDBOX"

// bridgeEnv names what a bridge needs for itself. The last two are for a binary built for coverage or with the race detector.
var bridgeEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "GOCOVERDIR", "GORACE"}

func (s setup) environ(marker string) []string {
	var env []string
	for _, name := range bridgeEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	b, _ := json.Marshal(s) // strings and numbers only
	return append(env, MarkerEnv+"="+marker, setupEnv+"="+string(b))
}

// tell writes the one report of a launch and closes it.
func tell(report *os.File, problem error) error {
	said := "{}\n"
	if problem != nil {
		b, _ := json.Marshal(map[string]any{"error": problem.Error(), "replaced": errors.Is(problem, errReplaced)})
		said = string(b) + "\n"
	}
	_, err := report.WriteString(said)
	return errors.Join(err, report.Close())
}
