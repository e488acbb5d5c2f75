package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/sessions"
)

func TestTake(t *testing.T) {
	p := home(t)
	claim, err := Take(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(p); !errors.Is(err, local.ErrLocked) {
		t.Errorf("a second host: %v", err)
	}
	l, err := claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if l.Path() != p.HostSocket() || local.Announced(p.Lock()) != p.HostSocket() {
		t.Errorf("it listens at %s and announces %q", l.Path(), local.Announced(p.Lock()))
	}
	if err := claim.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.HostSocket()); err == nil {
		t.Error("it left its socket")
	}
	again, err := Take(p)
	if err != nil {
		t.Fatal(err)
	}
	if again.Token != claim.Token || len(again.Token) < 32 {
		t.Errorf("tokens %q and %q", claim.Token, again.Token)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// A runtime folder that is cleaned up under a living host must not leave one that nobody can reach or replace.
func TestKeepBringsTheSocketBack(t *testing.T) {
	p := home(t)
	claim, err := Take(p)
	if err != nil {
		t.Fatal(err)
	}
	l, err := claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := Server(Handler(&fake{}, HandlerOptions{Token: claim.Token}))
	var serving, keeping sync.WaitGroup
	serve := func(l net.Listener) { serving.Go(func() { server.Serve(l) }) }
	serve(l)
	ctx, cancel := context.WithCancel(context.Background())
	back, failures := make(chan struct{}, 1), make(chan error, 1)
	keeping.Go(func() {
		claim.Keep(ctx, time.Millisecond, func(l net.Listener) { serve(l); back <- struct{}{} },
			func(err error) {
				select {
				case failures <- err:
				default:
				}
			})
	})
	ask := func() {
		t.Helper()
		c := New(Options{Socket: p.HostSocket(), TokenFile: p.Token()})
		if _, err := c.List(context.Background(), anybody, sessions.ListArgs{}); err != nil {
			t.Error(err)
		}
	}
	ask()
	// What stands in the way is reported, and overcome when it is gone.
	if err := os.Rename(p.Runtime, p.Runtime+".away"); err != nil { // at once: what is brought back meanwhile would be removed too
		t.Fatal(err)
	}
	<-back
	ask()
	if err := os.WriteFile(p.HostSocket()+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.HostSocket()+".new", p.HostSocket()); err != nil {
		t.Fatal(err)
	}
	if err := <-failures; err == nil {
		t.Error("no failure")
	}
	if err := os.Remove(p.HostSocket()); err != nil {
		t.Fatal(err)
	}
	<-back
	ask()
	cancel()
	keeping.Wait()
	server.Close()
	serving.Wait()
	if err := claim.Release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(p.HostSocket()); err == nil {
		t.Error("it left its socket")
	}
}

// A host whose state directory was deleted, or stands anew, is none any more: it must not take the socket from the one
// that is. While the directory is only moved away nothing is made in its place.
func TestKeepEndsWithTheClaim(t *testing.T) {
	for name, c := range map[string]struct {
		do func(state string) error
	}{
		"deleted": {os.RemoveAll},
		"moved away, and another in its place": {func(state string) error {
			if err := os.Rename(state, state+".away"); err != nil {
				return err
			}
			if err := os.Mkdir(state, 0o700); err != nil {
				return err
			}
			return os.WriteFile(state+"/host.lock", nil, 0o600)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := home(t)
			claim, err := Take(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := claim.Listen(); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(p.State, p.State+".moved"); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(p.HostSocket()); err != nil {
				t.Fatal(err)
			}
			unexpected := func(l net.Listener) { t.Errorf("it listens again at %v", l.Addr()) }
			failed := func(err error) { t.Error(err) }
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if err := claim.Keep(ctx, time.Millisecond, unexpected, failed); err != nil {
				t.Errorf("while it is moved away: %v", err)
			}
			cancel()
			if _, err := os.Lstat(p.State); err == nil {
				t.Error("something was made where it was")
			}
			if err := os.Rename(p.State+".moved", p.State); err != nil {
				t.Fatal(err)
			}
			if err := c.do(p.State); err != nil {
				t.Fatal(err)
			}
			if err := claim.Keep(context.Background(), time.Millisecond, unexpected, failed); !errors.Is(err, ErrClaimLost) {
				t.Errorf("got %v", err)
			}
			if err := claim.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}
