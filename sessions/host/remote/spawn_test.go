package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
)

// With this variable set the test binary is another program: its first argument says which.
const playVariable = "BATON_TEST_PLAY"

func play(role string) int {
	p, err := place.Find(os.Getenv)
	if err == nil {
		switch role {
		case "host":
			err = playHost(p, true)
		case "mute host":
			err = playHost(p, false)
		case "loser":
			note(p, "losers", strconv.Itoa(os.Getpid()))
		case "broken host":
			err = errors.New("cannot open the journal: it is on fire")
		case "refusing host":
			err = Reported(func() error {
				return sessions.Errorf(sessions.CodeStorageFull, "no room for %s", p.Journal()).Do("make some").With("bytes", 7)
			})
		case "client":
			err = playClient(p, os.Args[2])
		}
	}
	if errors.Is(err, local.ErrLocked) {
		fmt.Println("lost")
		return 0
	}
	if err != nil {
		fmt.Println(err)
		return 3
	}
	return 0
}

// playHost is a host whose API does a command once, in a file that outlives it. The first host of a state directory
// hangs in every wait, and in a send of "hang" after the command is done, and tells the test when it does.
func playHost(p place.Places, serve bool) error {
	claim, err := Take(p)
	if err != nil {
		return err
	}
	note(p, "hosts", strconv.Itoa(os.Getpid()))
	epoch := len(notes(p, "hosts"))
	l, err := claim.Listen()
	if err != nil {
		return err
	}
	fmt.Println("serving")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	time.AfterFunc(5*time.Minute, func() { end <- syscall.SIGTERM }) // it is detached: no failed test leaves it behind
	if !serve {
		<-end
		return nil
	}
	var mu sync.Mutex
	api := &fake{answer: func(ctx context.Context, verb string, args any) (any, error) {
		hang := epoch == 1 && verb == verbWait
		if a, ok := args.(sessions.SendArgs); ok {
			mu.Lock()
			if !slices.Contains(notes(p, "done"), a.CommandID) {
				note(p, "done", a.CommandID)
			}
			mu.Unlock()
			hang = epoch == 1 && a.Text == "hang"
		}
		if hang {
			if conn, err := net.Dial("unix", filepath.Join(p.Home, "hangs")); err == nil {
				conn.Close()
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		pid := strconv.Itoa(os.Getpid())
		switch a := args.(type) {
		case sessions.SendArgs:
			return sessions.SendResult{Command: sessions.Command{CommandID: a.CommandID, Reason: pid}}, nil
		case sessions.WaitArgs:
			return sessions.WaitResult{Next: pid}, nil
		}
		return nil, nil
	}}
	server := Server(Handler(api, HandlerOptions{Token: claim.Token,
		Status: func() Status { return Status{PID: os.Getpid(), Epoch: int64(epoch)} }}))
	go server.Serve(l)
	<-end
	server.Close()
	return claim.Release()
}

func playClient(p place.Places, id string) error {
	r, err := New(At(p, "host")).Send(context.Background(), anybody, sessions.SendArgs{CommandID: id})
	if err != nil {
		return err
	}
	fmt.Println(r.Command.Reason)
	return nil
}

// note adds a line to a file below the home; one write is not torn.
func note(p place.Places, name, line string) {
	f, err := os.OpenFile(filepath.Join(p.Home, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

func notes(p place.Places, name string) []string {
	b, _ := os.ReadFile(filepath.Join(p.Home, name))
	return strings.Fields(string(b))
}

// program is the test binary as another program. What it spawns is gone when the test is over.
func program(t *testing.T, p place.Places, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), playVariable+"=1", "BATON_HOME="+p.Home)
	return c
}

// spawning lets this process spawn hosts of p.
func spawning(t *testing.T, p place.Places) {
	t.Helper()
	t.Setenv(playVariable, "1")
	t.Setenv("BATON_HOME", p.Home)
	t.Cleanup(func() { killHosts(p) })
}

// killHosts ends every host that was one of p, and waits for the lock that the last one holds.
func killHosts(p place.Places) {
	for _, pid := range notes(p, "hosts") {
		if n, err := strconv.Atoi(pid); err == nil && alive(p, n) {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	for {
		lock, err := local.Lock(p.Lock())
		if !errors.Is(err, local.ErrLocked) {
			if err == nil {
				lock.Close()
			}
			return
		}
		pause(context.Background(), 0)
	}
}

// alive tells whether a process runs that is one of p: a pid is given again as soon as its process was reaped, and one that
// only waits for that has no environment any more.
func alive(p place.Places, pid int) bool {
	if _, err := os.Stat("/proc/self"); err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "BATON_HOME="+p.Home)
}

const crowd = 20

// sendByMany starts clients in processes of their own, at once, and returns the pid of the one host that served all.
func sendByMany(t *testing.T, p place.Places, round string) (host int) {
	t.Helper()
	var wg sync.WaitGroup
	answers := make([]string, crowd)
	for i := range crowd {
		c := program(t, p, "client", fmt.Sprintf("%s-%d", round, i))
		wg.Go(func() {
			out, err := c.CombinedOutput()
			answers[i] = strings.TrimSpace(string(out))
			if err != nil {
				answers[i] = fmt.Sprintf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	for i, a := range answers {
		pid, err := strconv.Atoi(a)
		if err != nil {
			t.Fatalf("client %d: %s", i, a)
		}
		if host == 0 {
			host = pid
		}
		if pid != host {
			t.Errorf("hosts %d and %d served", host, pid)
		}
	}
	return host
}

func TestManyClientsOneHost(t *testing.T) {
	p := home(t)
	t.Cleanup(func() { killHosts(p) })
	first := sendByMany(t, p, "fresh")
	if hosts := notes(p, "hosts"); !slices.Equal(hosts, []string{strconv.Itoa(first)}) {
		t.Fatalf("hosts %v, and %d served", hosts, first)
	}
	syscall.Kill(first, syscall.SIGKILL)
	second := sendByMany(t, p, "killed")
	if hosts := notes(p, "hosts"); len(hosts) != 2 || hosts[1] != strconv.Itoa(second) || !alive(p, second) {
		t.Errorf("hosts %v, and %d served after %d", hosts, second, first)
	}
	for first != second && alive(p, first) { // it lets go of its lock a moment before it is gone
		pause(context.Background(), 0)
	}
	done := notes(p, "done")
	slices.Sort(done)
	if n := len(done); n != 2*crowd || len(slices.Compact(done)) != n {
		t.Errorf("%d commands were done: %v", n, done)
	}
}

// However many processes want to be the host, one is, and the others end well.
func TestManyHostsOneWins(t *testing.T) {
	p := home(t)
	t.Cleanup(func() { killHosts(p) })
	said := make(chan string, crowd)
	var wg sync.WaitGroup
	var all []*exec.Cmd
	for range crowd {
		c := program(t, p, "host")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		wg.Go(func() {
			line, _ := bufio.NewReader(out).ReadString('\n')
			said <- strings.TrimSpace(line)
		})
	}
	wg.Wait()
	count := map[string]int{}
	for range crowd {
		count[<-said]++
	}
	if count["serving"] != 1 || count["lost"] != crowd-1 {
		t.Errorf("they said %v", count)
	}
	s, err := New(Options{Socket: p.HostSocket(), TokenFile: p.Token()}).Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Process.Pid == s.PID {
			c.Process.Signal(syscall.SIGTERM)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("process %d: %v", c.Process.Pid, err)
		}
	}
	if _, err := os.Lstat(p.HostSocket()); err == nil {
		t.Error("the host left its socket")
	}
}

// Calls that hang in a host which is killed are answered by the next one, and what they did is not done again.
func TestKillInTheMiddleOfCalls(t *testing.T) {
	p := home(t)
	spawning(t, p)
	hangs, err := net.Listen("unix", filepath.Join(p.Home, "hangs"))
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	answers := make(chan string, crowd)
	var wg sync.WaitGroup
	for i := range crowd {
		c := New(At(p, "host"))
		wg.Go(func() {
			var by string
			var err error
			if i%2 == 0 {
				var r sessions.WaitResult
				r, err = c.Wait(context.Background(), anybody, sessions.WaitArgs{WaitSeconds: seconds(50)})
				by = r.Next
			} else {
				var r sessions.SendResult
				r, err = c.Send(context.Background(), anybody, sessions.SendArgs{Text: "hang"})
				by = r.Command.Reason
			}
			if err != nil {
				by = err.Error()
			}
			answers <- by
		})
	}
	for range crowd {
		conn, err := hangs.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	first, _ := strconv.Atoi(notes(p, "hosts")[0])
	syscall.Kill(first, syscall.SIGKILL)
	wg.Wait()
	hosts := notes(p, "hosts")
	if len(hosts) != 2 {
		t.Fatalf("hosts %v", hosts)
	}
	for range crowd {
		if by := <-answers; by != hosts[1] {
			t.Errorf("answered by %s, not by %s", by, hosts[1])
		}
	}
	if done := notes(p, "done"); len(done) != crowd/2 {
		t.Errorf("%d commands were done: %v", len(done), done)
	}
}

func TestSpawnedHostIsDetached(t *testing.T) {
	p := home(t)
	spawning(t, p)
	t.Setenv("SECRET_TOKEN", "x")
	c := New(At(p, "host"))
	if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(s.PID); err != nil || sid != s.PID {
		t.Errorf("its session is %d, %v", sid, err)
	}
	log, err := os.ReadFile(p.HostLog())
	if err != nil || string(log) != "serving\n" {
		t.Errorf("its log holds %q, %v", log, err)
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		return
	}
	for fd, want := range map[string]string{"0": os.DevNull, "1": p.HostLog(), "2": p.HostLog()} {
		if got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.PID, fd)); got != want {
			t.Errorf("descriptor %s is %s, %v", fd, got, err)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID))
	if err != nil || strings.Contains(string(environ), "SECRET_TOKEN") {
		t.Errorf("its environment is %q, %v", environ, err)
	}
}

func TestDeepHome(t *testing.T) {
	dir := filepath.Dir(socket(t))
	for len(dir) < 190 {
		dir = filepath.Join(dir, "a-rather-long-folder-name")
	}
	p := homeAt(t, dir)
	if !strings.HasPrefix(p.HostSocket(), dir) || len(p.HostSocket()) < 190 {
		t.Fatal(p.HostSocket())
	}
	spawning(t, p)
	_, err := New(At(p, "host")).List(context.Background(), anybody, sessions.ListArgs{})
	if local.Reachable(p.HostSocket()) == nil {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if sessions.CodeOf(err) != sessions.CodeLimitExceeded || !strings.Contains(err.Error(), p.HostSocket()) {
		t.Errorf("got %v", err)
	}
}

func TestStartThatFails(t *testing.T) {
	for _, c := range []struct {
		role string
		code sessions.Code
		says []string
	}{
		{"broken host", sessions.CodeInternal, []string{"exit status 3", "cannot open the journal: it is on fire", "host.log"}},
		{"refusing host", sessions.CodeStorageFull, []string{"no room for /", "journal.db (make some)"}},
		{"loser", sessions.CodeTimeout, []string{"enough"}},     // once two have lost
		{"mute host", sessions.CodeTimeout, []string{"enough"}}, // once it is the host
	} {
		t.Run(c.role, func(t *testing.T) {
			p := home(t)
			spawning(t, p)
			ctx, cancel := context.WithCancelCause(context.Background())
			var watching sync.WaitGroup
			defer watching.Wait()
			defer cancel(nil)
			if c.code == sessions.CodeTimeout {
				watching.Go(func() {
					for len(notes(p, "losers")) < 2 && len(notes(p, "hosts")) < 1 && pause(ctx, 0) == nil {
					}
					cancel(errors.New("enough"))
				})
			}
			_, err := New(At(p, c.role)).Send(ctx, anybody, sessions.SendArgs{})
			if sessions.CodeOf(err) != c.code {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if n := len(notes(p, "hosts")); n > 1 {
				t.Errorf("%d hosts", n)
			}
		})
	}
}

func TestStartInAFolderOfOthers(t *testing.T) {
	p := home(t)
	spawning(t, p)
	if err := os.Mkdir(p.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.State, 0o770); err != nil {
		t.Fatal(err)
	}
	_, err := New(At(p, "host")).List(context.Background(), anybody, sessions.ListArgs{})
	if err == nil || !strings.Contains(err.Error(), p.State) || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("got %v", err)
	}
}

func TestLogIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.log")
	f, from, err := openLog(path)
	if err != nil || from != 0 {
		t.Fatal(from, err)
	}
	if err := f.Truncate(maxLog + 1); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f, from, err = openLog(path)
	if err != nil || from != 0 {
		t.Fatal(from, err)
	}
	f.Close()
	if info, err := os.Stat(path + ".1"); err != nil || info.Size() != maxLog+1 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTailOfALog(t *testing.T) {
	f, _, err := openLog(filepath.Join(t.TempDir(), "host.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "of another host")
	from, _ := f.Seek(0, 2)
	if got := tail(f, from); got != "it said nothing" {
		t.Errorf("got %q", got)
	}
	fmt.Fprintln(f, strings.Repeat("x", 5000)+"\xffend")
	if got := tail(f, from); len(got) > 1100 || !strings.HasSuffix(got, "x?end") {
		t.Errorf("got %q", got)
	}
}

func TestHostEnvironment(t *testing.T) {
	got := hostEnvironment([]string{"HOME=/h", "OPENAI_API_KEY=k", "PATH=/bin", "BATON_HOME=/b", "XDG_RUNTIME_DIR=/r", "LD_PRELOAD=x",
		"LC_ALL=C", "GITHUB_TOKEN=t", "NODE_OPTIONS=x", "CODEX_HOME=/c", "HOMEX=1"})
	if want := []string{"HOME=/h", "PATH=/bin", "BATON_HOME=/b", "XDG_RUNTIME_DIR=/r", "LC_ALL=C"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
