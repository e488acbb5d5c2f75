package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attempts are what a program may try on a file, as an agent would: each tells "ok" or the error.
var attempts = map[string]func(a []string) error{
	"read":  func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":  func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"stat":  func(a []string) error { return unix.Stat(a[0], new(unix.Stat_t)) },
	"write": func(a []string) error { return open(a[0], unix.O_WRONLY|unix.O_APPEND) },
	"create": func(a []string) error {
		return open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	},
	"truncate": func(a []string) error { return unix.Truncate(a[0], 0) },
	"unlink":   func(a []string) error { return unix.Unlink(a[0]) },
	"mkdir":    func(a []string) error { return unix.Mkdir(a[0], 0o700) },
	"rmdir":    func(a []string) error { return unix.Rmdir(a[0]) },
	"rename":   func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"link":    func(a []string) error { return unix.Link(a[0], a[1]) },
	"symlink": func(a []string) error { return unix.Symlink(a[0], a[1]) },
	"chmod":   func(a []string) error { return unix.Chmod(a[0], 0o777) },
	"utimes": func(a []string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, a[0], []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	},
	"setxattr": func(a []string) error { return unix.Setxattr(a[0], "user.sandbox", []byte("x"), 0) },
	"reopen": func(a []string) error { // for writing, what was opened for reading
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		return open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_WRONLY)
	},
	"handle": func(a []string) error {
		h, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
		if err != nil {
			return err
		}
		_ = mount
		dir, err := unix.Open(a[1], unix.O_DIRECTORY, 0) // of a folder that may be written
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(dir, h, unix.O_WRONLY)
		return err
	},
	"dial": func(a []string) error {
		c, err := net.Dial("unix", a[0])
		if err == nil {
			c.Close()
		}
		return err
	},
	"tcp":     func(a []string) error { return send("tcp", a[0]) },
	"udp":     func(a []string) error { return send("udp", a[0]) },
	"remount": func(a []string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"umount":  func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
}

func send(network, addr string) error {
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return errors.Join(err, c.Close())
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o600)
	if err != nil {
		return err
	}
	if flags&unix.O_APPEND != 0 {
		_, err = unix.Write(fd, []byte("stolen"))
	}
	return errors.Join(err, unix.Close(fd))
}

func init() {
	roles["attempt"] = func(args []string) error {
		err := attempts[args[0]](args[1:])
		var errno unix.Errno
		switch {
		case err == nil:
			fmt.Print("ok")
		case errors.As(err, &errno):
			fmt.Print(unix.ErrnoName(errno))
		default:
			fmt.Print(err)
		}
		return nil
	}
}

// attempt lets an agent try something and returns "ok" or the name of the error.
func (b *bridge) attempt(t *testing.T, what ...string) string {
	t.Helper()
	return b.order(t, order{Do: "output", Argv: append([]string{"/proc/self/exe", "attempt"}, what...)}).Text
}

// elsewhere is a folder outside of every temporary one that a policy makes private.
func elsewhere(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func needFilesystem(t *testing.T) {
	t.Helper()
	needNamespace(t)
	if c := Probe(within(t)); !c.Filesystem {
		t.Skipf("NOT TESTED: no filesystem policy here: %s", strings.Join(c.Reasons, "; "))
	}
}

// TestFilesystemHolds tries every way out that is known, the ways that no mount namespace closes among them: should one
// of those close some day, what is said about it must change too.
func TestFilesystemHolds(t *testing.T) {
	needFilesystem(t)
	base := elsewhere(t)
	work, more, out := filepath.Join(base, "work"), filepath.Join(base, "more"), filepath.Join(base, "out")
	secrets, token := filepath.Join(base, "secrets"), filepath.Join(base, "token")
	put(t, work+"/mine", "m")
	put(t, work+"/mine2", "m")
	put(t, work+"/kept/config", "k")
	put(t, work+"/kept/open/file", "k")
	put(t, more+"/file", "f")
	put(t, out+"/file", "original")
	put(t, out+"/shared", "original")
	put(t, secrets+"/key", "secret")
	put(t, token, "secret")
	for old, link := range map[string]string{out: work + "/way", secrets + "/key": work + "/secretly"} {
		if err := os.Symlink(old, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(out+"/shared", work+"/shared"); err != nil {
		t.Fatal(err)
	}
	listen := func(path string) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	listen(out + "/socket")
	listen(out + "/hidden")
	abstract := "@sandbox-" + filepath.Base(base)
	listen(abstract)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	brought := filepath.Join(t.TempDir(), "brought", "back")
	lost := put(t, filepath.Join(t.TempDir(), "lost"), "l")
	put(t, brought+"/file", "b")
	put(t, filepath.Dir(brought)+"/beside", "b")

	b := startBridge(t, Launch{Rung: PIDNamespace, Mask: []string{secrets}, Filesystem: &Filesystem{Name: "test", ReadOnly: true, Rules: []Rule{
		{work, Writable}, {more, Writable}, {work + "/kept", ReadOnly}, {work + "/kept/open", Writable}, {token, Hidden}, {out + "/hidden", Hidden},
		{"/tmp", Private}, {brought, Writable}, {"/dev/shm", Private}}}})
	if a := b.order(t, order{Do: "self"}); a.Inside.Filesystem != "test" {
		t.Errorf("inside: %+v", a.Inside)
	}
	var failed []string
	for _, tt := range []struct {
		try  string // an attempt and its paths
		want string
	}{
		// What the session is for.
		{"write " + work + "/mine", "ok"},
		{"create " + work + "/new", "ok"},
		{"mkdir " + work + "/folder", "ok"},
		{"rename " + work + "/new " + work + "/folder/new", "ok"},
		{"link " + work + "/mine " + work + "/mine3", "ok"},
		{"chmod " + work + "/mine", "ok"},
		{"read " + out + "/file", "ok"},
		{"read /etc/passwd", "ok"},
		{"write /dev/null", "ok"},
		{"write " + work + "/kept/open/file", "ok"},
		{"create /tmp/own", "ok"},
		{"create /dev/shm/own", "ok"},
		{"write " + brought + "/file", "ok"},
		// What is read-only.
		{"write " + out + "/file", "EROFS"},
		{"truncate " + out + "/file", "EROFS"},
		{"unlink " + out + "/file", "EROFS"},
		{"create " + out + "/new", "EROFS"},
		{"mkdir " + out + "/new", "EROFS"},
		{"chmod " + out + "/file", "EROFS"},
		{"utimes " + out + "/file", "EROFS"},
		{"setxattr " + out + "/file", "EROFS"},
		{"reopen " + out + "/file", "EROFS"},
		{"symlink x " + out + "/link", "EROFS"},
		{"create /var/tmp/new", "EROFS"},
		{"create /etc/new", "EROFS"},
		{"create /new", "EROFS"},
		// By another way.
		{"write " + work + "/way/file", "EROFS"},
		{"create " + work + "/way/new", "EROFS"},
		{"write /proc/self/root" + out + "/file", "EROFS"},
		{"write /proc/self/cwd" + out + "/file", "EROFS"},
		{"link " + out + "/file " + work + "/linked", "EXDEV"},
		{"rename " + out + "/file " + work + "/moved", "EXDEV"},
		{"rename " + work + "/mine2 " + out + "/moved", "EXDEV"},
		{"rename " + work + "/mine2 " + more + "/moved", "EXDEV"},
		{"exchange " + work + "/mine2 " + out + "/file", "EXDEV"},
		{"handle " + out + "/file " + work, "EPERM"},
		// What is carved out of a writable folder, and the folder in its place.
		{"write " + work + "/kept/config", "EROFS"},
		{"create " + work + "/kept/new", "EROFS"},
		{"unlink " + work + "/kept/config", "EROFS"},
		{"rename " + work + "/kept " + work + "/gone", "EBUSY"},
		{"rmdir " + work + "/kept", "EBUSY"},
		{"exchange " + work + "/folder " + work + "/kept", "EBUSY"},
		// Secrets.
		{"list " + secrets, "EACCES"},
		{"read " + secrets + "/key", "EACCES"},
		{"stat " + secrets + "/key", "EACCES"},
		{"create " + secrets + "/new", "EACCES"},
		{"read " + work + "/secretly", "EACCES"},
		{"link " + secrets + "/key " + work + "/key", "EACCES"},
		{"rename " + token + " " + work + "/token", "EXDEV"},
		{"dial " + out + "/hidden", "ECONNREFUSED"},
		// A private folder has nothing of the machine but what was brought back.
		{"stat " + lost, "ENOENT"},
		{"stat " + filepath.Dir(brought) + "/beside", "ENOENT"},
		// Undoing it.
		{"remount " + out, "EPERM"},
		{"umount " + secrets, "EPERM"},
		{"umount /proc", "EPERM"},
		{"umount /tmp", "EPERM"},
		// The known holes.
		{"write " + work + "/shared", "ok"}, // the further name of a file outside
		{"dial " + out + "/socket", "ok"},
		{"dial " + abstract, "ok"},
		{"tcp " + tcp.Addr().String(), "ok"},
		{"udp " + udp.LocalAddr().String(), "ok"},
	} {
		if got := b.attempt(t, strings.Fields(tt.try)...); got != tt.want {
			failed = append(failed, fmt.Sprintf("%s: %s, want %s", tt.try, got, tt.want))
		}
	}
	var cgroups []string
	for _, pattern := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		cgroups = append(cgroups, found...)
	}
	for _, file := range cgroups { // a process that moves itself leaves the limits that its cgroup has
		if got := b.attempt(t, "write", file); got != "EROFS" && got != "EACCES" {
			failed = append(failed, "write "+file+": "+got)
		}
	}
	for _, f := range failed {
		t.Error(f)
	}
	if text, err := os.ReadFile(out + "/file"); err != nil || string(text) != "original" {
		t.Errorf("outside, the file is %q, %v", text, err)
	}
	if text, _ := os.ReadFile(out + "/shared"); string(text) != "originalstolen" {
		t.Errorf("a hard link is a hole, and outside the file is %q", text)
	}
	if text, _ := os.ReadFile(brought + "/file"); string(text) != "bstolen" {
		t.Errorf("what was brought back is %q outside", text)
	}
	if names, err := os.ReadDir("/dev/shm"); err == nil && slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == "own" }) {
		t.Error("/dev/shm is the machine's")
	}
	if got := b.attempt(t, "read", token); got != "ok" {
		t.Errorf("a hidden file is an empty one: %s", got)
	}
	if text := b.shell(t, "cat "+token+" /proc/1/environ 2>&1"); strings.Contains(text, "secret") {
		t.Errorf("the token is readable: %q", text)
	}
	for _, script := range []string{
		"unshare -Urm mount -o remount,bind,rw / && echo x > " + out + "/file",
		"unshare -Urm mount -o remount,bind,rw " + work + "/kept",
		"unshare -Urm umount " + secrets, "unshare -Urm umount -l " + work + "/kept",
		"unshare -Urm sh -c 'mount --bind " + out + " " + more + " && echo x > " + more + "/file'",
		"unshare -Urm sh -c 'mount -t tmpfs none /mnt && mkdir /mnt/w && mount --rbind / /mnt/w && echo x > /mnt/w" + out + "/file'",
	} {
		if a := b.order(t, order{Do: "output", Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}); a.Exit == 0 {
			t.Errorf("%s: %q", script, a.Text)
		}
	}
	if text, err := os.ReadFile(out + "/file"); err != nil || string(text) != "original" {
		t.Errorf("outside, the file is %q, %v", text, err)
	}
}

// Without a read-only root only what is named is changed: so it is when another sandbox is inside.
func TestFilesystemOfNamedPathsOnly(t *testing.T) {
	needFilesystem(t)
	base := elsewhere(t)
	put(t, base+"/secret", "s")
	put(t, base+"/kept/file", "k")
	b := startBridge(t, Launch{Rung: PIDNamespace, Filesystem: &Filesystem{Rules: []Rule{{base + "/secret", Hidden}, {base + "/kept", ReadOnly}}}})
	for try, want := range map[string]string{"create " + base + "/new": "ok", "write " + base + "/kept/file": "EROFS"} {
		if got := b.attempt(t, strings.Fields(try)...); got != want {
			t.Errorf("%s: %s, want %s", try, got, want)
		}
	}
	if text := b.shell(t, "cat "+base+"/secret"); text != "" {
		t.Errorf("hidden: %q", text)
	}
}

func TestFilesystemRefuses(t *testing.T) {
	base := t.TempDir()
	put(t, base+"/in/file", "x")
	if err := os.Symlink(base+"/in", base+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		rules []Rule
		want  string
	}{
		"relative":      {[]Rule{{"in", Writable}}, "not absolute"},
		"not clean":     {[]Rule{{base + "/in/../in", Writable}}, "clean"},
		"root":          {[]Rule{{"/", Writable}}, "root"},
		"missing":       {[]Rule{{base + "/none", Writable}}, "no such file"},
		"symlink":       {[]Rule{{base + "/link", Writable}}, "symbolic link"},
		"below a link":  {[]Rule{{base + "/link/file", Hidden}}, "symbolic link"},
		"twice":         {[]Rule{{base + "/in", Writable}, {base + "/in", Hidden}}, "both"},
		"below hidden":  {[]Rule{{base + "/in", Hidden}, {base + "/in/file", Writable}}, "hidden"},
		"unknown":       {[]Rule{{base + "/in", "rw"}}, "none"},
		"private file":  {[]Rule{{base + "/in/file", Private}}, "no folder"},
		"weaker rung":   {nil, "mount namespace"},
		"just as it is": {[]Rule{{base + "/in", Writable}, {base + "/in/file", Hidden}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fs := &Filesystem{ReadOnly: true, Rules: tt.rules}
			var err error
			if name == "weaker rung" {
				_, err = Start(within(t), Launch{Args: []string{Command}, Rung: ProcessGroup, Filesystem: fs})
			} else {
				_, err = fs.pin()
			}
			if tt.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// Between the host's look and the mount somebody may put another file in the place of the one that was meant.
func TestFilesystemIsPinned(t *testing.T) {
	needFilesystem(t)
	for _, a := range []Access{Writable, ReadOnly} {
		dir := elsewhere(t)
		p, err := (&Filesystem{Rules: []Rule{{dir, a}}}).pin()
		if err != nil {
			t.Fatal(err)
		}
		p.Spots[0].Ino++
		if _, err := copyTree(p.Spots[0]); err == nil {
			t.Errorf("%s: another file was taken", a)
		}
	}
}

// What a session starts without end stops at its own bound, and takes none from the user's others. The kernel holds root
// to no such bound.
func TestProcessLimit(t *testing.T) {
	needNamespace(t)
	b := startBridge(t, Launch{Rung: PIDNamespace, MaxProcesses: 60})
	if limits := b.shell(t, "grep processes /proc/self/limits"); !slices.Equal(strings.Fields(limits), []string{"Max", "processes", "60", "60", "processes"}) {
		t.Errorf("limits: %q", limits)
	}
	text := b.shell(t, "n=0; while [ $n -lt 60 ]; do sleep 600 >/dev/null 2>&1 & n=$((n+1)); done; echo all")
	if bounded := !strings.HasSuffix(text, "all\n"); bounded == (os.Getuid() == 0) {
		t.Errorf("60 processes beside a bridge of some threads, at most 60 in all: %q", text)
	}
	b.order(t, order{Do: "killall", Limit: patience})
	if got := b.shell(t, "echo again"); got != "again\n" {
		t.Errorf("after the kill: %q", got)
	}
}

// A program that keeps its state in a file puts a new one over it, also between the host's look and the mount.
func TestReplacedFileIsPinnedAgain(t *testing.T) {
	needFilesystem(t)
	dir := elsewhere(t)
	path := filepath.Join(dir, "state")
	times := 0
	replace := func(n int) func() {
		times = 0
		return func() {
			if times++; times > n {
				return
			}
			put(t, path+".new", fmt.Sprint(times))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, path, "0")
	for name, l := range map[string]Launch{
		"read-only": {Filesystem: &Filesystem{Rules: []Rule{{path, ReadOnly}}}},
		"hidden":    {Filesystem: &Filesystem{Rules: []Rule{{path, Hidden}}}},
		"mask":      {Mask: []string{path}},
	} {
		t.Run(name, func(t *testing.T) {
			l.Rung, l.pinned = PIDNamespace, replace(replacedTries-1)
			startBridge(t, l)
			if times != replacedTries {
				t.Errorf("looked at %d times, want %d", times, replacedTries)
			}
			l.pinned = replace(replacedTries)
			if _, err := tryBridge(t, l); err == nil || !strings.Contains(err.Error(), "not the file any more") {
				t.Errorf("replaced each time: %v", err)
			}
		})
	}
}
