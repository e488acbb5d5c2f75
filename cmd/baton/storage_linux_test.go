package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/fixtures/record"
	"github.com/batonmcp/baton/sessions"
)

const (
	namespaceVariable = "BATON_TEST_NAMESPACE"
	stateRoom         = 16 << 20 // of the state directory's file system
)

// inNamespace runs the calling test again in a mount namespace of its own, where it may mount file systems, and reports
// true there. Outside it returns when that run is over, with its verdict.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceVariable) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	run := func(argv ...string) ([]byte, error) {
		cmd := exec.Command(exe, argv...)
		cmd.Env = append(os.Environ(), namespaceVariable+"=1")
		cmd.SysProcAttr = attr
		return cmd.CombinedOutput()
	}
	if out, err := run("-test.run=^TestNamespaceAllows$", "-test.count=1"); err != nil {
		t.Skipf("SKIPPED: no file system can be mounted here, so no disk can be filled: %v\n%s", err, out)
	}
	out, err := run("-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	t.Logf("in a mount namespace:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// TestNamespaceAllows is what inNamespace tries first.
func TestNamespaceAllows(t *testing.T) {
	if os.Getenv(namespaceVariable) == "" {
		t.Skip("SKIPPED: it is a part of other tests")
	}
	inNamespace(t)
	mountTmpfs(t, t.TempDir(), 1<<20)
}

func mountTmpfs(t *testing.T, dir string, size int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// smallDisk is a world whose state directory has little room, and two ways to change that.
func smallDisk(t *testing.T) (w *world, fill, free func()) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	mountTmpfs(t, state, stateRoom)
	t.Cleanup(func() { // after the end of the world, which needs it
		if err := unix.Unmount(w.path("baton/state"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w = newWorld(t, "BATON_FIXTURE_RECORD="+filepath.Join(t.TempDir(), "record"))
	if err := os.Mkdir(w.path("baton/state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(state, w.path("baton/state"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(state, "ballast")
	fill = func() {
		f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	free = func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	return w, fill, free
}

// given is how often a text was given to an agent of this world.
func (w *world) given(text string) (n int) {
	w.t.Helper()
	for _, e := range w.env {
		name, ok := strings.CutPrefix(e, "BATON_FIXTURE_RECORD=")
		if !ok {
			continue
		}
		all, err := record.Read(name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range all {
			if r.Kind == "prompt" && strings.Contains(r.Text, text) {
				n++
			}
		}
	}
	return n
}

// steadyRefusals is how many sends in a row are refused when nothing more is found: the log that is in use, then the log
// that was brought in, then the reserve.
const steadyRefusals = 5

// untilRefused sends until the journal takes nothing more: what a full disk still holds for its log is used up first, and
// what its host can make of it. It returns what was refused.
func untilRefused(w *world, f *front, code sessions.Code, session string, fill func()) (texts []string) {
	w.t.Helper()
	row := 0
	for n := range sessions.MaxQueue {
		fill()
		text := fmt.Sprintf("[say 1] number %d.", n)
		_, e := try[sessions.SendResult](f, "session_send", args{"session_id": session, "text": text, "when_busy": "queue"})
		if e == nil {
			row = 0
			continue
		}
		if e.Code != code || e.Action == "" {
			w.t.Fatalf("refused with %v, want %s and what to do", e, code)
		}
		texts = append(texts, text)
		if row++; row == steadyRefusals {
			return texts
		}
	}
	w.t.Fatalf("nothing was ever refused for long with %s", code)
	return nil
}

// takesAgain waits until a session takes and ends a turn.
func takesAgain(w *world, f *front, session string) {
	w.t.Helper()
	end := time.Now().Add(patience)
	for n := 0; ; n++ {
		sent, e := try[sessions.SendResult](f, "session_send", args{"session_id": session, "text": fmt.Sprintf("[say 2] again %d", n), "wait_seconds": 50})
		if e == nil && sent.Command.State == sessions.CommandCompleted {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("the journal does not come back: %v %+v", e, sent.Command)
		}
	}
}

// troubled checks what holds while the journal takes nothing: commands are refused and reach nobody, and what reads
// reads.
func troubled(w *world, f *front, code sessions.Code, busy, idle string, worsen func()) {
	w.t.Helper()
	for _, text := range untilRefused(w, f, code, idle, worsen) {
		if n := w.given(text); n > 0 {
			w.t.Errorf("a refused command, %q, reached the agent %d times", text, n)
		}
	}
	worsen()
	refused(f, code, "session_create", args{"runner": "codexlike", "cwd": w.work})
	worsen()
	refused(f, code, "session_cancel", args{"session_id": busy})
	if list := call[sessions.ListResult](f, "session_list", args{"all": true}).Sessions; len(list) != 2 {
		w.t.Errorf("%d sessions are listed: %+v", len(list), list)
	}
	if evs := f.events(busy); len(evs) == 0 {
		w.t.Error("the events cannot be read")
	}
	if got := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{idle}, "wait_seconds": 0}); len(got.Sessions) != 1 {
		w.t.Errorf("a wait gives %+v", got)
	}
}

// whole checks that a turn that ran through the trouble lost nothing.
func whole(w *world, f *front, session, command string, n int) {
	w.t.Helper()
	end := time.Now().Add(patience)
	for {
		got := call[sessions.WaitResult](f, "session_wait", args{"session_ids": []string{session}, "wait_seconds": 50})
		if !got.TimedOut {
			break
		}
		if time.Now().After(end) {
			w.t.Fatalf("the turn does not end: %+v", got)
		}
	}
	evs := f.events(session) // without hole or double, or the test fails
	if got := words(evs, command); got != directive.Words(n) {
		w.t.Errorf("of %d words %d bytes arrived, ending %q", n, len(got), got[max(0, len(got)-40):])
	}
	if n := count(evs, sessions.EventCommandSettled, command); n != 1 {
		w.t.Errorf("%d ends of one command", n)
	}
	for _, e := range evs {
		if e.Kind == sessions.EventGap || e.Kind == sessions.EventSessionFailed {
			w.t.Errorf("there is %+v", e)
		}
	}
}

// stoppedUnwritten closes a session whose close cannot be journalled.
func stoppedUnwritten(w *world, f *front, session string) {
	w.t.Helper()
	before := len(w.find("agent"))
	closed := call[sessions.CloseResult](f, "session_close", args{"session_id": session, "wait_seconds": 50})
	if closed.Session.Containment.Rung == "pid_namespace" && closed.Stopped != "confirmed" || !strings.Contains(closed.Proof, "not journalled") || closed.Session.Recovery == "" {
		w.t.Errorf("closed: %+v", closed)
	}
	if after := len(w.find("agent")); after != before-1 {
		w.t.Errorf("%d agents before the close, %d after", before, after)
	}
}

// closedAfterwards checks that the journal got to know of it.
func closedAfterwards(w *world, f *front, session string) {
	w.t.Helper()
	await(w.t, "the journal's knowing of the close", func() bool {
		list := call[sessions.ListResult](f, "session_list", args{"state": "closed"}).Sessions
		return len(list) == 1 && list[0].SessionID == session
	})
	evs := f.events(session)
	if last := evs[len(evs)-1]; last.Kind != sessions.EventSessionClosed {
		w.t.Errorf("the last event is %+v", last)
	}
	for _, e := range evs {
		if e.Kind == sessions.EventGap {
			w.t.Errorf("there is %+v", e)
		}
	}
	again := call[sessions.CloseResult](f, "session_close", args{"session_id": session})
	if again.Session.State != sessions.SessionClosed || again.Session.Containment.Rung == "pid_namespace" && again.Stopped != "confirmed" {
		w.t.Errorf("closed again: %+v", again)
	}
}

func TestFullDisk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	w, fill, free := smallDisk(t)
	f := w.open()
	defer f.close()
	busy := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	idle := call[sessions.CreateResult](f, "session_create", args{"runner": "cursorlike", "cwd": w.work, "sandbox": sessions.SandboxFullAccess}).Session.SessionID
	host := w.hostPID()
	const n = 400
	call[sessions.SendResult](f, "session_send", args{"session_id": busy, "text": fmt.Sprintf("[slow 10][say %d]", n), "command_id": "c-1"})
	f.streaming(busy, "c-1")
	troubled(w, f, sessions.CodeStorageFull, busy, idle, fill)
	stoppedUnwritten(w, f, idle)
	free()
	whole(w, f, busy, "c-1", n)
	closedAfterwards(w, f, idle)
	takesAgain(w, f, busy)
	if pid := w.hostPID(); pid != host {
		t.Errorf("host %d took over from host %d", pid, host)
	}
	if out, errs, status := w.verb("journal", "check"); status != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
}

// A disk that is full of the journal's own log is full for nobody: the log is brought in, as often as it takes, the
// reserve is there afterwards, and no caller hears of it.
func TestLogAloneFillsTheDisk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	w, _, _ := smallDisk(t)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	await(t, "the host's reserve", func() bool { return exists(w.path("baton/state/reserve")) })
	host := w.hostPID()
	broughtIn, was, turns := 0, int64(0), 0
	for ; broughtIn < 2; turns++ {
		if turns == 3000 {
			t.Fatalf("the log was brought in %d times in %d turns; it has %d bytes", broughtIn, turns, was)
		}
		sent := call[sessions.SendResult](f, "session_send", args{"session_id": s, "text": "[say 1] on.", "command_id": fmt.Sprint("c-", turns), "wait_seconds": 20})
		if sent.Command.State != sessions.CommandCompleted {
			t.Fatalf("turn %d: %+v", turns, sent.Command)
		}
		info, err := os.Stat(w.path("baton/state/journal.db-wal"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() < was {
			broughtIn++
		}
		was = info.Size()
	}
	await(t, "the reserve again", func() bool { return exists(w.path("baton/state/reserve")) })
	evs := f.events(s)
	if n := count(evs, sessions.EventCommandSettled, ""); n != 0 {
		t.Errorf("%d ends of no command", n)
	}
	for n := range turns {
		if c := fmt.Sprint("c-", n); count(evs, sessions.EventCommandSettled, c) != 1 || words(evs, c) != directive.Words(1) {
			t.Errorf("of %s there is %q", c, words(evs, c))
		}
	}
	if pid := w.hostPID(); pid != host {
		t.Errorf("host %d took over from host %d", pid, host)
	}
	if out, errs, status := w.verb("journal", "check"); status != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
}

// A host that starts on a full disk adopts what lives, reads what is there and refuses the rest; so does it end a session.
func TestHostStartsOnAFullDisk(t *testing.T) {
	if inNamespace(t) {
		startsOnAFullDisk(t, true)
	}
}

// Without the room that it keeps for that day, too.
func TestHostStartsOnAFullDiskWithoutReserve(t *testing.T) {
	if inNamespace(t) {
		startsOnAFullDisk(t, false)
	}
}

func startsOnAFullDisk(t *testing.T, reserve bool) {
	w, fill, free := smallDisk(t)
	f := w.open()
	defer f.close()
	busy := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	idle := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	n := 1000
	if !reserve {
		n = 400
	}
	call[sessions.SendResult](f, "session_send", args{"session_id": busy, "text": fmt.Sprintf("[slow 10][say %d]", n), "command_id": "c-1"})
	f.streaming(busy, "c-1")
	await(t, "the host's reserve", func() bool { return exists(w.path("baton/state/reserve")) })
	if !reserve {
		if err := os.Remove(w.path("baton/state/reserve")); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	w.killHost()
	troubled(w, f, sessions.CodeStorageFull, busy, idle, fill)
	stoppedUnwritten(w, f, idle)
	free()
	whole(w, f, busy, "c-1", n)
	closedAfterwards(w, f, idle)
	takesAgain(w, f, busy)
	if out, errs, status := w.verb("journal", "check"); status != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
}

// A state directory on a file system that is read-only is refused by name, and used once that is over.
func TestReadOnlyStateDirectory(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	w, _, _ := smallDisk(t)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	call[sessions.CloseResult](f, "session_close", args{"session_id": s.SessionID})
	w.stopHost()
	remount := func(flags uintptr) {
		var err error
		await(t, "the last writer to let go of the state directory", func() bool { // a bridge may still be on its way out
			err = unix.Mount("", w.path("baton/state"), "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
			return err != unix.EBUSY
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	for tool, a := range map[string]args{"session_create": {"runner": "codexlike", "cwd": w.work}, "session_list": {}} {
		if e := refused(f, sessions.CodeStorageFailed, tool, a); !strings.Contains(e.Message, "read-only") || e.Action == "" {
			t.Errorf("%s: %v", tool, e)
		}
	}
	remount(0)
	if list := call[sessions.ListResult](f, "session_list", args{"all": true}).Sessions; len(list) != 1 || list[0].SessionID != s.SessionID {
		t.Errorf("with write access again there is %+v", list)
	}
}

// limitFiles lets no file of a process grow beyond size, and returns what undoes that.
func limitFiles(t *testing.T, pid int, size uint64) (undo func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &was, nil); err != nil {
			t.Error(err)
		}
	}
}

// A disk whose writes fail, for a reason that is not a lack of room, stops the journal until it is opened again.
func TestFailingDisk(t *testing.T) {
	w := newWorld(t, "BATON_FIXTURE_RECORD="+filepath.Join(t.TempDir(), "record"))
	f := w.open()
	defer f.close()
	busy := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	idle := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	host := w.hostPID()
	const n = 400
	call[sessions.SendResult](f, "session_send", args{"session_id": busy, "text": fmt.Sprintf("[slow 10][say %d]", n), "command_id": "c-1"})
	f.streaming(busy, "c-1")
	undo := limitFiles(t, host, 4096)
	troubled(w, f, sessions.CodeStorageFailed, busy, idle, func() {})
	stoppedUnwritten(w, f, idle)
	undo()
	whole(w, f, busy, "c-1", n)
	closedAfterwards(w, f, idle)
	takesAgain(w, f, busy)
	if pid := w.hostPID(); pid != host {
		t.Errorf("host %d took over from host %d", pid, host)
	}
	if out, errs, status := w.verb("journal", "check"); status != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
}

// A journal that was taken away under the host would take everything with it: it is missed at once, and used again when
// it is back.
func TestJournalTakenAway(t *testing.T) {
	w := newWorld(t, "BATON_FIXTURE_RECORD="+filepath.Join(t.TempDir(), "record"))
	f := w.open()
	defer f.close()
	busy := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	idle := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session.SessionID
	const n = 400
	call[sessions.SendResult](f, "session_send", args{"session_id": busy, "text": fmt.Sprintf("[slow 10][say %d]", n), "command_id": "c-1"})
	f.streaming(busy, "c-1")
	path := w.path("baton/state/journal.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	troubled(w, f, sessions.CodeStorageFailed, busy, idle, func() {})
	w.write("baton/state/journal.db", "somebody else's")
	refused(f, sessions.CodeStorageFailed, "session_send", args{"session_id": idle, "text": "[say 1] replaced"})
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	whole(w, f, busy, "c-1", n)
	takesAgain(w, f, idle)
	if n := w.given("replaced"); n > 0 {
		t.Errorf("a refused command reached the agent %d times", n)
	}
	if out, errs, status := w.verb("journal", "check"); status != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
}
