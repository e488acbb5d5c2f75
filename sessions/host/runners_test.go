package host

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
)

// asking counts the questions that runner fake is asked, and answers them as answer says.
func (r *rig) asking(answer func(ctx context.Context, n int) (sessions.Probe, error)) *atomic.Int32 {
	var n atomic.Int32
	r.ask = func(ctx context.Context, s bridge.Spec) (sessions.Probe, error) {
		if s.Open.Runner != "fake" {
			return sessions.Probe{}, sessions.Errorf(sessions.CodeTimeout, "not now")
		}
		return answer(ctx, int(n.Add(1)))
	}
	return &n
}

func (r *rig) fake(refresh bool, who sessions.Caller) sessions.Runner {
	r.t.Helper()
	res, err := r.RunnerList(r.t.Context(), who, sessions.RunnerListArgs{Refresh: refresh})
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(res.Runners, func(x sessions.Runner) bool { return x.Name == "fake" })
	if i < 0 {
		r.t.Fatalf("no runner fake in %+v", res.Runners)
	}
	return res.Runners[i]
}

func TestRunnerListKeepsWhatWasSaid(t *testing.T) {
	r := newRig(t)
	asked := r.asking(func(context.Context, int) (sessions.Probe, error) {
		return sessions.Probe{Version: "1.2", Login: "yes", Models: []sessions.Model{{ID: "m"}}, Modes: []string{"plan"}}, nil
	})
	for range 3 {
		if f := r.fake(false, r.who); !f.Installed || f.Version != "1.2" || f.Login != "yes" || f.Executable == "" || f.Protocol != "app-server" || f.Problem != "" {
			t.Errorf("%+v", f)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	r.fake(true, r.who)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times after a refresh", n)
	}
	other := sessions.Caller{Principal: "local", Env: []string{"HOME=/elsewhere", "PATH=/usr/bin:/bin"}} // another account, another login
	r.fake(false, other)
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times for two accounts", n)
	}
	r.configure("")
	res, err := r.RunnerList(t.Context(), r.who, sessions.RunnerListArgs{})
	if err != nil || slices.ContainsFunc(res.Runners, func(x sessions.Runner) bool { return x.Name == "fake" }) {
		t.Errorf("a runner that is configured no more: %+v, %v", res, err)
	}
}

// A failure is kept for a moment, so that callers that come together do not each wait for it; a refresh asks again.
func TestRunnerListKeepsFailures(t *testing.T) {
	r := newRig(t)
	asked := r.asking(func(_ context.Context, n int) (sessions.Probe, error) {
		if n == 1 {
			return sessions.Probe{}, sessions.Errorf(sessions.CodeNotLoggedIn, "log in")
		}
		return sessions.Probe{Version: "1.2", Login: "yes"}, nil
	})
	for range 2 {
		if f := r.fake(false, r.who); !f.Installed || f.Login != "no" || !strings.Contains(f.Problem, "log in") {
			t.Errorf("%+v", f)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if f := r.fake(true, r.who); f.Login != "yes" || f.Problem != "" {
		t.Errorf("%+v", f)
	}
	was := probed{executable: "/x", account: "a", at: time.Now().Add(-problemKept), runner: sessions.Runner{Problem: "log in"}}
	if was.good("/x", "a") {
		t.Error("an old failure is believed")
	}
	was.runner.Problem = ""
	if !was.good("/x", "a") || was.good("/y", "a") || was.good("/x", "b") {
		t.Error("what a runner said is kept wrong")
	}
}

// Callers that come together ask once; one that leaves does not take the answer along.
func TestRunnersAreAskedOneAtATime(t *testing.T) {
	r := newRig(t)
	begun, release := make(chan struct{}), make(chan struct{})
	asked := r.asking(func(ctx context.Context, n int) (sessions.Probe, error) {
		if n == 1 {
			close(begun)
			<-ctx.Done()
			return sessions.Probe{}, ctx.Err()
		}
		<-release
		return sessions.Probe{Version: "1.2", Login: "yes"}, nil
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := r.RunnerList(ctx, r.who, sessions.RunnerListArgs{})
		gone <- err
	}()
	<-begun
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if f := r.fake(true, r.who); f.Version != "1.2" {
				t.Errorf("%+v", f)
			}
		})
	}
	leave()
	if err := <-gone; err == nil {
		t.Error("a caller that left has an answer")
	}
	close(release)
	wg.Wait()
	if n := asked.Load(); n > 6 || n < 2 { // those who came after an answer ask for a fresher one
		t.Errorf("asked %d times", n)
	}
	if f := r.fake(false, r.who); f.Version != "1.2" {
		t.Errorf("%+v", f)
	}
}
