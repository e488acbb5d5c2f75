package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// procDirs is the process table.
func procDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("the witness is blind", err)
	}
	return dirs
}

// leaves counts those of the token's processes that fork no more.
func leaves(t *testing.T, token string) (n int) {
	t.Helper()
	for _, d := range procDirs(t) {
		if bytes.Contains(ofSomeThread(d, "cmdline"), []byte("leaf\x00"+token)) && !isOver(d) {
			n++
		}
	}
	return n
}

// witness looks from outside for what carries the token in its command line or the marker in its environment. It shares
// nothing with the package.
func witness(t *testing.T, token string) (pids []int) {
	t.Helper()
	mark := []byte("\x00BATON_MARK=" + strings.TrimPrefix(token, "token-") + "\x00")
	for _, d := range procDirs(t) {
		line, env := ofSomeThread(d, "cmdline"), ofSomeThread(d, "environ")
		env = slices.Concat([]byte{0}, env, []byte{0})
		if (bytes.Contains(line, []byte("\x00"+token+"\x00")) || bytes.Contains(env, mark)) && !isOver(d) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// isOver tells whether a process of /proc is a zombie or not there any more.
func isOver(dir string) bool {
	stat, err := os.ReadFile(dir + "/stat")
	threads, _ := filepath.Glob(dir + "/task/*")
	return err != nil || bytes.Contains(stat, []byte(") Z ")) && len(threads) < 2
}

// ofSomeThread reads a file of /proc of the first thread that still shows it.
func ofSomeThread(dir, name string) []byte {
	files, _ := filepath.Glob(dir + "/task/*/" + name)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 {
			return b
		}
	}
	return nil
}

// breath is a fifo that every hostile process holds open for writing. While one of them lives, however short its lives
// are, the kernel reports no hang-up.
type breath struct {
	path string
	fd   int
	said int // bytes
}

func newBreath(t *testing.T) *breath {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox") // not t.TempDir: its parent is private, and the inner user may be another
	if err != nil {
		t.Fatal(err)
	}
	b := &breath{path: filepath.Join(dir, "fifo")}
	if err := unix.Mkfifo(b.path, 0o600); err != nil {
		t.Fatal(err)
	}
	if b.fd, err = unix.Open(b.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(b.fd)
		os.RemoveAll(dir)
	})
	return b
}

// held tells whether anybody holds the other end, and takes what was said.
func (b *breath) held() bool { return b.holds(0) }

// holds gives those who are dying already that time to let go of the other end.
func (b *breath) holds(wait time.Duration) bool {
	buf := make([]byte, 1<<16)
	for n := 1; n > 0; {
		n, _ = unix.Read(b.fd, buf)
		b.said += max(n, 0)
	}
	return b.open(wait)
}

// open tells whether anybody holds the other end, or still does after a while.
func (b *breath) open(wait time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(b.fd)}}
	for {
		if _, err := unix.Poll(fds, int(wait.Milliseconds())); err != unix.EINTR {
			return fds[0].Revents&unix.POLLHUP == 0
		}
	}
}

// choke fills the fifo: whoever speaks next waits, and can be met.
func (b *breath) choke(t *testing.T) {
	t.Helper()
	fd, err := unix.Open(b.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, size := range []int{1 << 16, 1} {
		for err = nil; err == nil || err == unix.EINTR; {
			_, err = unix.Write(fd, make([]byte, size))
		}
	}
}

var hostileModes = []struct {
	mode   string
	leaves int  // once all are there
	closes bool // it lets go of the fifo
	unseen bool // no search finds it: what outlives a bridge on a rung without namespaces stays
	hops   bool // no search finds it and no rung without namespaces need come to an end with it
}{
	{mode: "tree", leaves: 4}, {mode: "setsid", leaves: 1}, {mode: "daemon", leaves: 3}, {mode: "deaf", leaves: 2}, {mode: "bomb", leaves: 50},
	{mode: "closed", leaves: 1, closes: true}, {mode: "guard", leaves: 4}, {mode: "reaper", leaves: 3}, {mode: "rootexit", leaves: 1, closes: true},
	{mode: "stopped", leaves: 1}, {mode: "nested", leaves: 3}, {mode: "sibling", leaves: 1}, {mode: "cgroup", leaves: 1}, {mode: "headless", leaves: 1},
	{mode: "unmarked", leaves: 1, unseen: true}, {mode: "sleeper", leaves: 1, unseen: true}, {mode: "hopper", unseen: true, hops: true},
}

// endings are the ways in which a session ends, each with what it claims.
var endings = []struct {
	name string
	end  func(t *testing.T, b *bridge) (claim bool)
}{
	{"stop", func(t *testing.T, b *bridge) bool {
		v := b.Stop(within(t))
		t.Logf("%s %s in %s: %s", v.State, v.Proof, v.Took, v.Detail)
		return v.State == Confirmed
	}},
	{"bridge kills all", func(t *testing.T, b *bridge) bool {
		began := time.Now()
		a := b.order(t, order{Do: "killall", Limit: patience})
		t.Logf("%v in %s", a.OK, time.Since(began))
		return a.OK
	}},
	{"bridge is killed", func(t *testing.T, b *bridge) bool {
		if err := unix.Kill(b.Record().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		v := Settle(within(t), b.Record())
		t.Logf("%s %s in %s: %s", v.State, v.Proof, v.Took, v.Detail)
		return v.State == Confirmed
	}},
}

// Of endings.
const (
	bridgeKills  = 1
	killedBridge = 2
)

// tally is what a rung made of all the hostile processes.
type tally struct {
	runs, claims, wrong, left int
	took                      []time.Duration // to a claim
}

func (y *tally) at(percent int) time.Duration {
	if len(y.took) == 0 {
		return 0
	}
	slices.Sort(y.took)
	return y.took[min(len(y.took)*percent/100, len(y.took)-1)].Round(10 * time.Microsecond)
}

// TestI10_StoppedMeansProven runs hostile processes on every rung and ends them in every way: a claim that nothing is
// left must be true, and where the rung promises one it must come. BATON_FULL=1 takes each of them 20 times.
func TestI10_StoppedMeansProven(t *testing.T) {
	runs, seed := extent()
	table := &strings.Builder{}
	fmt.Fprintf(table, "uid %d\n%-14s %-10s %5s %6s %6s %5s %10s %10s\n", os.Getuid(), "rung", "processes", "runs", "claims", "false", "left", "p50", "p99")
	rungs(t, func(t *testing.T, rung Rung) {
		all := &tally{}
		row := func(name string, y *tally) {
			if y.runs == 0 {
				return
			}
			fmt.Fprintf(table, "%-14s %-10s %5d %6d %6d %5d %10s %10s\n", rung, name, y.runs, y.claims, y.wrong, y.left, y.at(50), y.at(99))
		}
		for n, m := range hostileModes {
			y := &tally{}
			t.Run(m.mode, func(t *testing.T) {
				for run := range runs {
					e := (seed + n + run) % len(endings)
					t.Run(endings[e].name, func(t *testing.T) { y.add(outlive(t, rung, n, e)) })
				}
			})
			row(m.mode, y)
			all.runs, all.claims, all.wrong, all.left = all.runs+y.runs, all.claims+y.claims, all.wrong+y.wrong, all.left+y.left
			all.took = append(all.took, y.took...)
		}
		row("all", all)
	})
	t.Log(table)
}

// extent is how often everything is done, and what rotates samples.
func extent() (runs, seed int) {
	fmt.Sscan(os.Getenv("BATON_SEED"), &seed)
	if os.Getenv("BATON_FULL") != "" {
		return 20, seed
	}
	return 1, seed
}

func (y *tally) add(claim bool, left int, took time.Duration) {
	y.runs++
	y.left += left
	if claim {
		y.claims++
		y.took = append(y.took, took)
		if left > 0 {
			y.wrong++
		}
	}
}

// outlive lets one kind of hostile processes try to outlive one kind of end.
func outlive(t *testing.T, rung Rung, mode, ending int) (claim bool, left int, took time.Duration) {
	m, e := hostileModes[mode], endings[ending]
	b := startBridge(t, Launch{Rung: rung})
	token := "token-" + b.Record().Marker
	lives := newBreath(t)
	t.Cleanup(func() {
		if m.hops {
			lives.choke(t)
		}
		until(t, "the end of what is left", func() bool {
			pids := witness(t, token)
			for _, pid := range pids {
				unix.Kill(pid, unix.SIGKILL)
			}
			return len(pids) == 0 && (m.closes || !lives.open(0))
		})
		for _, root := range cgroups() {
			until(t, "an empty cgroup", func() bool {
				err := os.Remove(filepath.Join(root, token))
				return err == nil || !os.IsExist(err) && err.(*os.PathError).Err != unix.EBUSY
			})
		}
	})
	b.order(t, order{Do: "spawn", Argv: []string{"/proc/self/exe", "hostile", "root", token, m.mode, lives.path}, Env: []string{"HOME=/"}})
	until(t, fmt.Sprintf("%d hostile leaves", m.leaves), func() bool {
		return (lives.held() || m.closes) && (!m.hops || lives.said > 20) && leaves(t, token) == m.leaves
	})
	began := time.Now()
	claim = e.end(t, b)
	took = time.Since(began)
	pids := slices.DeleteFunc(witness(t, token), func(pid int) bool { return pid == b.Record().PID && ending == bridgeKills })
	dying := patience // who claims nothing has waited for nobody whom it did not kill itself
	if claim || m.hops {
		dying = 0
	}
	if len(pids) == 0 && !m.closes && lives.holds(dying) {
		pids = []int{-1} // one that lives too short to be met
	}
	left = len(pids)
	kept := rung != ProcessGroup && (rung == PIDNamespace || ending != killedBridge) // by the rung's promise
	switch {
	case claim && left > 0:
		t.Errorf("FALSE CLAIM: %d processes live on", left)
	case kept && !claim && (rung == PIDNamespace || !m.hops):
		t.Errorf("rung %s did not prove the end", rung)
	case !kept && claim:
		t.Errorf("rung %s cannot have proven the end", rung)
	case left == 0 && !kept && m.unseen && ending == killedBridge && !m.hops:
		t.Error("nothing outlived its bridge: this mode shows nothing")
	case left > 0 && !m.unseen:
		t.Errorf("%d processes were not found", left)
		for _, pid := range pids {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			t.Logf("%d: %q in state %.60s", pid, argv(pid), stat)
		}
	}
	return claim, left, took
}

// someone is an ordinary user.
const someone = 4242

// TestI10_StoppedMeansProvenAsUser is the same without root's ways.
func TestI10_StoppedMeansProvenAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // it was
	}
	run := "^TestI10_StoppedMeansProven$"
	if runs, seed := extent(); runs == 1 { // a third of them
		for n, m := range hostileModes {
			if (n+seed)%3 == 0 {
				run += map[bool]string{true: "/.*/^(", false: "|"}[!strings.Contains(run, "/")] + m.mode
			}
		}
		run += ")$"
	}
	_, table, found := strings.Cut(asSomeone(t, run), "uid 4242")
	if table, _, _ = strings.Cut(table, "---"); !found {
		t.Error("it was not run")
	}
	t.Log("uid 4242" + table)
}

// asSomeone runs tests of this binary as an ordinary user and returns what they wrote.
func asSomeone(t *testing.T, run string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, filepath.Join(dir, "sandbox.test"))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sandbox.test"), "-test.v", "-test.run", run)
	cmd.Dir = "/"
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }), "HOME=/")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", someone, err, out)
	}
	return string(out)
}

// TestNoKillTurnsTheMatrixRed shows that the witness sees: in a build that kills nothing and claims the same, every rung's
// run fails.
func TestNoKillTurnsTheMatrixRed(t *testing.T) {
	if spared {
		return
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "nokill", "-run", "^TestI10_StoppedMeansProven$/.*/^(daemon|deaf)$", ".")
	cmd.Env = append(os.Environ(), "BATON_SEED=1", "BATON_FULL=")
	b, err := cmd.CombinedOutput()
	out := string(b)
	if err == nil {
		t.Fatalf("the matrix is green without a kill:\n%s", out)
	}
	for _, rung := range Rungs {
		if rung == PIDNamespace && Probe(within(t)).Rung != PIDNamespace {
			continue
		}
		_, row, _ := strings.Cut(out, "\n        "+fmt.Sprintf("%-14s all", rung))
		var runs, claims, wrong, left int
		if n, err := fmt.Sscan(row, &runs, &claims, &wrong, &left); n != 4 {
			t.Fatalf("no figures of rung %s: %v\n%s", rung, err, out)
		}
		if claimed := rung != ProcessGroup; runs != 2 || left == 0 || claimed != (claims == runs) || claimed != (wrong == runs) {
			t.Errorf("rung %s: %d runs, %d claims, %d false, %d left", rung, runs, claims, wrong, left)
		}
	}
}
