package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// sockets counts the open sockets of a process.
func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("SKIPPED: the descriptors of a process cannot be seen: %v", err)
	}
	for _, e := range entries {
		if link, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(link, "socket:") {
			n++
		}
	}
	return n
}

// Forty waits of one front end slow nobody, and end with it: the host keeps nothing of them.
func TestWaitsEndWithTheirFrontEnd(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[wait]", "command_id": "c-1"})
	host := w.hostPID()
	before := sockets(t, host)
	fronts := w.find(" mcp")
	waiter := w.open()
	defer waiter.close()
	pid := 0
	for _, p := range w.find(" mcp") {
		if !slices.ContainsFunc(fronts, func(q process) bool { return q.PID == p.PID }) {
			pid = p.PID
		}
	}
	const n, passing = 40, 5 // connections of calls that were just answered may be among those before
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			waiter.c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "session_wait", // its answer never comes
				Arguments: args{"session_ids": []string{s.SessionID}, "wait_seconds": 50}}})
		})
	}
	await(t, "the waits to be open", func() bool { return sockets(t, host) >= before+n-passing })
	for i := range 20 { // other calls are answered meanwhile
		other := call[sessions.ReadResult](f, "session_read", args{"session_id": s.SessionID})
		if len(other.Events) == 0 {
			t.Fatalf("read %d gives nothing", i)
		}
	}
	second := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
	sent := call[sessions.SendResult](f, "session_send", args{"session_id": second.SessionID, "text": "[say 3]", "wait_seconds": 50})
	if sent.Command.State != sessions.CommandCompleted {
		t.Errorf("beside the waits: %+v", sent.Command)
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": second.SessionID})
	if got := sockets(t, host); got < before+n-passing {
		t.Errorf("%d sockets while the waits are open, %d before", got, before)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the waits", func() bool { return sockets(t, host) <= before })
	cancel()
	wg.Wait()
	list := call[sessions.ListResult](f, "session_list", args{}).Sessions
	if len(list) != 1 || list[0].State != sessions.SessionRunning || list[0].Running == nil {
		t.Errorf("the work ended with its waits: %+v", list)
	}
}

// The inbox is delivered until it is acknowledged, whatever becomes of the host.
func TestInboxOutlivesTheHost(t *testing.T) {
	w := newWorld(t)
	f := w.open()
	defer f.close()
	var ids []string
	for range 3 {
		s := call[sessions.CreateResult](f, "session_create", args{"runner": "codexlike", "cwd": w.work}).Session
		ids = append(ids, s.SessionID)
		call[sessions.SendResult](f, "session_send", args{"session_id": s.SessionID, "text": "[say 2]", "wait_seconds": 50})
	}
	inbox := func(after args) map[string]string {
		t.Helper()
		got := map[string]string{}
		for _, s := range call[sessions.WaitResult](f, "session_wait", args{"wait_seconds": 0, "after": after}).Sessions {
			if s.Text != "w1 w2" {
				t.Errorf("text %q", s.Text)
			}
			got[s.Session.SessionID] = s.Cursor
		}
		return got
	}
	got := inbox(nil)
	if len(got) != 3 {
		t.Fatalf("%d sessions in the inbox", len(got))
	}
	w.killHost()
	if again := inbox(nil); len(again) != 3 {
		t.Errorf("%d sessions after a kill, none was acknowledged", len(again))
	}
	if left := inbox(args{ids[0]: got[ids[0]]}); len(left) != 2 {
		t.Errorf("%d sessions after one was acknowledged", len(left))
	}
	w.killHost()
	if left := inbox(nil); len(left) != 2 || left[ids[0]] != "" {
		t.Errorf("after a kill: %v", left)
	}
	call[sessions.CloseResult](f, "session_close", args{"session_id": ids[1], "delete": true})
	if left := inbox(nil); len(left) != 1 || left[ids[2]] == "" {
		t.Errorf("after a deletion: %v", left)
	}
}
