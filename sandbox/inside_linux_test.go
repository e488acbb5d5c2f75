package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// statusOf reads fields of /proc/PID/status as they are seen inside.
func statusOf(t *testing.T, b *bridge, path string) map[string]string {
	t.Helper()
	text := ""
	if path == "/proc/self/status" {
		text = b.order(t, order{Do: "read", Argv: []string{path}}).Text
	} else {
		text = b.shell(t, "cat /proc/self/status")
	}
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.TrimSpace(value)
	}
	return out
}

func TestNoPrivilegeIsLeft(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		for who, path := range map[string]string{"bridge": "/proc/self/status", "agent": ""} {
			status := statusOf(t, b, path)
			fields := []string{"CapInh", "CapPrm", "CapEff", "CapAmb"}
			if rung == PIDNamespace || os.Getuid() == 0 {
				fields = append(fields, "CapBnd")
			}
			for _, f := range fields {
				if strings.Trim(status[f], "0") != "" || status[f] == "" {
					t.Errorf("%s: %s is %q", who, f, status[f])
				}
			}
			if status["NoNewPrivs"] != "1" {
				t.Errorf("%s: NoNewPrivs is %q", who, status["NoNewPrivs"])
			}
			if rung == PIDNamespace && strings.HasPrefix(status["Uid"], "0\t") {
				t.Errorf("%s is uid 0 inside", who)
			}
			if who == "agent" && (strings.Trim(status["SigIgn"], "0") != "" || strings.Trim(status["SigBlk"], "0") != "") {
				t.Errorf("the agent starts with signals ignored (%s) or blocked (%s)", status["SigIgn"], status["SigBlk"])
			}
		}
		for _, task := range threads(t, b.Record().PID) { // of the bridge, from outside: every thread
			text, err := os.ReadFile(filepath.Join(task, "status"))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended
				continue
			}
			if err != nil || !strings.Contains(string(text), "CapPrm:\t0000000000000000\n") || !strings.Contains(string(text), "NoNewPrivs:\t1\n") {
				t.Errorf("%s keeps privileges: %v", task, err)
			}
		}
	})
}

func threads(t *testing.T, pid int) []string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads %v, %v", tasks, err)
	}
	return tasks
}

func TestAgentHasThreeDescriptors(t *testing.T) {
	// What our own parent let slip into us must not reach the agent.
	null := devNull(t)
	for _, from := range []int{7, 100} {
		fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD, from)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung, Files: []*os.File{null}})
		a := b.order(t, order{Do: "spawn", Argv: []string{"/bin/sleep", "600"}})
		agent := outerPID(t, b, "/bin/sleep")
		until(t, "that the agent has its three descriptors alone", func() bool { // while it is being loaded it has its libraries open
			return slices.Equal(descriptorsOf(t, agent), []string{"0", "1", "2"})
		})
		if got := descriptorsOf(t, b.Record().PID); slices.Contains(got, "100") {
			t.Errorf("the bridge has descriptors %v", got)
		}
		if got := b.order(t, order{Do: "read", Argv: []string{"/proc/" + fmt.Sprint(a.PID) + "/oom_score_adj"}}).Text; strings.TrimSpace(got) != fmt.Sprint(ownOOM(t)+agentOOM) {
			t.Errorf("the agent's oom_score_adj is %q", got)
		}
		if got := b.order(t, order{Do: "read", Argv: []string{"/proc/self/oom_score_adj"}}).Text; strings.TrimSpace(got) != fmt.Sprint(ownOOM(t)) {
			t.Errorf("the bridge's oom_score_adj is %q", got)
		}
	})
}

func ownOOM(t *testing.T) (score int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(string(b), &score)
	return score
}

// outerPID finds, from outside, the process of a session that runs a program. Whoever executed it may be told so a moment
// before the kernel shows its arguments and environment: descriptors are closed first.
func outerPID(t *testing.T, b *bridge, program string) (pid int) {
	t.Helper()
	until(t, "a process that runs "+program, func() bool {
		for _, p := range marked(b.Record().Marker) {
			if len(p.Argv) > 0 && p.Argv[0] == program {
				pid = p.PID
			}
		}
		return pid != 0
	})
	return pid
}

func descriptorsOf(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		if os.Getuid() != 0 {
			return nil // the bridge is not dumpable: nobody but root may look
		}
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The agent has the bridge's user, so all that keeps them apart is that the bridge is not dumpable, and process 1.
func TestAgentCannotTouchItsBridge(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		b := startBridge(t, Launch{Rung: rung})
		pid := fmt.Sprint(b.order(t, order{Do: "self"}).PID)
		signals := []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGTSTP, unix.SIGTTIN, unix.SIGXCPU, unix.SIGPWR, unix.SIGIO, unix.SIGWINCH, unix.SIGCONT, unix.SIGPROF, unix.SIGCHLD, unix.SIGURG}
		switch rung {
		case PIDNamespace:
			signals = append(signals, unix.SIGKILL, unix.SIGSTOP)
		case Subreaper: // this one ends the session, as SIGKILL would
			signals = slices.DeleteFunc(signals, func(s syscall.Signal) bool { return s == emptySignal })
		}
		for _, s := range signals {
			b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", fmt.Sprintf("kill -%d %s", int(s), pid)}})
			b.order(t, order{Do: "self"}) // it still answers
		}
		if rung != PIDNamespace && os.Getuid() == 0 {
			return // there root reads what is root's
		}
		for _, what := range []string{"mem", "environ", "maps", "auxv", "fd/3", "root/etc", "cwd/etc"} {
			got := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", fmt.Sprintf("ls -L /proc/%s/%s >/dev/null && head -c 1 /proc/%s/%s", pid, what, pid, what)}})
			if got.Exit == 0 {
				t.Errorf("the agent reads %s of its bridge: %q", what, got.Text)
			}
		}
		got := b.order(t, order{Do: "output", Argv: []string{"/proc/self/exe", "attach", pid}})
		if got.Exit != 0 {
			t.Errorf("attach: %s", got.Text)
		}
	})
}

func init() {
	roles["attach"] = func(args []string) error {
		runtime.LockOSThread()
		var pid int
		fmt.Sscan(args[0], &pid)
		if err := unix.PtraceAttach(pid); err == nil {
			return errors.New("attached")
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		for fd := range 10 { // its listening socket and its links among them
			if _, err := unix.PidfdGetfd(pidfd, fd, 0); err == nil {
				return fmt.Errorf("descriptor %d was taken", fd)
			}
		}
		iov := []unix.RemoteIovec{{Base: 0x400000, Len: 16}}
		buf := make([]byte, 16)
		if _, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 16}}, iov, 0); !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("its memory: %v", err)
		}
		return nil
	}
}

func TestMaskHidesState(t *testing.T) {
	needNamespace(t)
	base := t.TempDir()
	state := filepath.Join(base, "state")
	inner := filepath.Join(state, "run")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(state, "secret")
	token := filepath.Join(base, "token")
	for _, f := range []string{secret, token} {
		if err := os.WriteFile(f, []byte("marker"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(state, link); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(base, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	b := startBridge(t, Launch{Rung: PIDNamespace, Mask: []string{inner, link, token, socket}})
	if a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", "unshare -Urm mount --bind " + base + " /mnt || unshare -Urm true"}}); a.Exit != 0 {
		t.Fatalf("the attempts below would fail for another reason: %s", a.Text)
	}
	for _, script := range []string{
		"ls " + state, "cat " + secret, "stat " + secret, "ls " + link + "/", "cat " + link + "/secret", "cd " + state, "touch " + state + "/new",
		"ls " + inner, "chmod 700 " + state, "rmdir " + state, "mv " + state + " " + base + "/moved", "umount " + state, "umount -l " + state,
		"mount -o remount,rw " + state, "mount -t tmpfs none /mnt", "test -s " + token, "rm " + token, "umount /proc",
		// in a user namespace of its own the agent has capabilities, but what it inherited is locked together
		"unshare -Urm umount " + state, "unshare -Urm umount -l " + token, "unshare -Urm mount -o remount,rw " + state,
		"unshare -Urm sh -c 'mount --bind " + base + " /mnt && cat /mnt/state/secret'",
	} {
		if a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}); a.Exit == 0 || strings.Contains(a.Text, "marker") {
			t.Errorf("%s: exit %d, %q", script, a.Exit, a.Text)
		}
	}
	if a := b.try(t, order{Do: "read", Argv: []string{secret}}); a.Err == "" {
		t.Error("the bridge itself reads the masked file")
	}
	if a := b.order(t, order{Do: "output", Argv: []string{"/proc/self/exe", "dial", socket}}); a.Exit != 0 || !strings.Contains(a.Text, "refused") {
		t.Errorf("dial of a masked socket: %q", a.Text)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "marker" {
		t.Errorf("outside, the file is %q, %v", text, err)
	}
	if conn, err := net.Dial("unix", socket); err != nil {
		t.Errorf("outside: %v", err)
	} else {
		conn.Close()
	}
}

func init() {
	roles["dial"] = func(args []string) error {
		conn, err := net.Dial("unix", args[0])
		if err == nil {
			conn.Close()
			return errors.New("connected")
		}
		fmt.Println(err)
		return nil
	}
}

func TestMaskFailsClosed(t *testing.T) {
	needNamespace(t)
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		l    Launch
		want string
	}{
		"missing":                 {Launch{Mask: []string{filepath.Join(dir, "none")}}, "no such file"},
		"relative":                {Launch{Mask: []string{"state"}}, "not absolute"},
		"working directory below": {Launch{Mask: []string{dir}, Dir: dir}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.l.Rung = PIDNamespace
			if _, err := tryBridge(t, tt.l); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// Between the host's look and the mount somebody may put another directory in the place of the masked one.
func TestMaskIsPinned(t *testing.T) {
	dir := t.TempDir()
	list, err := masks([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	list[0].Ino++
	if err := hide(list[0]); err == nil || !strings.Contains(err.Error(), "not the file any more") {
		t.Errorf("hide: %v", err)
	}
}

func TestNamespaceShowsOnlyItself(t *testing.T) {
	needNamespace(t)
	b := startBridge(t, Launch{Rung: PIDNamespace})
	if a := b.order(t, order{Do: "self"}); a.PID != 1 {
		t.Errorf("the bridge is process %d", a.PID)
	}
	if got := strings.Fields(b.shell(t, "cd /proc; echo [0-9]*")); len(got) != 2 {
		t.Errorf("/proc shows %v", got)
	}
	if got := strings.TrimSpace(b.shell(t, "ulimit -c; ulimit -Hc")); got != "0\n0" {
		t.Errorf("core limits %q", got)
	}
}

// Programs that ask the system who they are, ssh first of all, must find the user that started the session.
func TestInnerUserHasItsName(t *testing.T) {
	needNamespace(t)
	outside, err := user.Current()
	if err != nil {
		t.Skipf("NOT TESTED: this user has no name outside: %v", err)
	}
	b := startBridge(t, Launch{Rung: PIDNamespace})
	got := strings.Fields(b.shell(t, "id -un; id -gn; getent passwd $(id -u) | cut -d: -f6; test -w /etc/passwd || echo protected"))
	if len(got) < 3 || got[0] != outside.Username || got[2] != outside.HomeDir {
		t.Errorf("inside %q, outside %s in %s", got, outside.Username, outside.HomeDir)
	}
	if os.Getuid() == 0 && (len(got) != 4 || got[1] != "root") {
		t.Errorf("root is %q inside", got)
	}
}

func TestRenumber(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"passwd":       {"daemon:x:1:1:daemon:/usr/sbin:/bin/sh\nroot:x:0:0:root:/root:/bin/bash\n", "root:x:1000:1000:root:/root:/bin/bash\n"},
		"other name":   {"toor:*:0:5::/r:\n", "toor:*:1000:1000::/r:\n"},
		"group":        {"root:x:0:a,b\n", "root:x:1000:a,b\n"},
		"no last line": {"root:x:0:", "root:x:1000:\n"},
		"none":         {"u:x:10:10::/:\n+::::::\n\n", ""},
	} {
		if got, ok := renumber(tt.text); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
}

// Whoever works on Baton with Baton runs its tests inside a session.
func TestLaunchWithinASession(t *testing.T) {
	rungs(t, func(t *testing.T, rung Rung) {
		if rung != PIDNamespace && os.Getuid() == 0 {
			t.Skip("root without capabilities cannot map itself into a user namespace")
		}
		b := startBridge(t, Launch{Rung: rung})
		a := b.order(t, order{Do: "output", Argv: []string{"/proc/self/exe", "again"}})
		if want := "pid_namespace confirmed pid_namespace\n"; a.Text != want && Probe(within(t)).Rung == PIDNamespace {
			t.Errorf("%q, want %q", a.Text, want)
		}
	})
}

func init() {
	roles["again"] = func([]string) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p, err := Start(ctx, Launch{Args: []string{Command, "stay"}, Files: []*os.File{os.Stdin}, Log: os.Stderr})
		if err != nil {
			return err
		}
		defer p.Release()
		v := p.Stop(ctx)
		fmt.Println(p.Record().Rung, v.State, v.Proof)
		return nil
	}
}
