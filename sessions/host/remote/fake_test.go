package remote

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonmcp/baton/internal/local"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/sessions"
)

func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" && len(os.Args) > 1 {
		os.Exit(play(os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

// fake is an API that keeps what it was given. answer, when set, makes the answer of every verb.
type fake struct {
	answer func(ctx context.Context, verb string, args any) (any, error)

	mu    sync.Mutex
	calls []taken
}

type taken struct {
	verb string
	who  sessions.Caller
	args any
}

var _ sessions.API = (*fake)(nil)

func take[R any](f *fake, ctx context.Context, verb string, who sessions.Caller, args any) (R, error) {
	f.mu.Lock()
	f.calls = append(f.calls, taken{verb, who, args})
	f.mu.Unlock()
	var none R
	if f.answer == nil {
		return none, nil
	}
	r, err := f.answer(ctx, verb, args)
	if err != nil || r == nil {
		return none, err
	}
	return r.(R), nil
}

func (f *fake) taken() []taken {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]taken(nil), f.calls...)
}

func (f *fake) RunnerList(ctx context.Context, who sessions.Caller, a sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
	return take[sessions.RunnerListResult](f, ctx, verbRunnerList, who, a)
}
func (f *fake) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	return take[sessions.CreateResult](f, ctx, verbCreate, who, a)
}
func (f *fake) Send(ctx context.Context, who sessions.Caller, a sessions.SendArgs) (sessions.SendResult, error) {
	return take[sessions.SendResult](f, ctx, verbSend, who, a)
}
func (f *fake) Wait(ctx context.Context, who sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	return take[sessions.WaitResult](f, ctx, verbWait, who, a)
}
func (f *fake) Read(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (sessions.ReadResult, error) {
	return take[sessions.ReadResult](f, ctx, verbRead, who, a)
}
func (f *fake) Respond(ctx context.Context, who sessions.Caller, a sessions.RespondArgs) (sessions.RespondResult, error) {
	return take[sessions.RespondResult](f, ctx, verbRespond, who, a)
}
func (f *fake) Cancel(ctx context.Context, who sessions.Caller, a sessions.CancelArgs) (sessions.CancelResult, error) {
	return take[sessions.CancelResult](f, ctx, verbCancel, who, a)
}
func (f *fake) Close(ctx context.Context, who sessions.Caller, a sessions.CloseArgs) (sessions.CloseResult, error) {
	return take[sessions.CloseResult](f, ctx, verbClose, who, a)
}
func (f *fake) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	return take[sessions.ResumeResult](f, ctx, verbResume, who, a)
}
func (f *fake) List(ctx context.Context, who sessions.Caller, a sessions.ListArgs) (sessions.ListResult, error) {
	return take[sessions.ListResult](f, ctx, verbList, who, a)
}

func (f *fake) Changed(ctx context.Context, who sessions.Caller, a sessions.ChangedArgs) (sessions.ChangedResult, error) {
	return take[sessions.ChangedResult](f, ctx, verbChanged, who, a)
}

// socket is where a test's host listens.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// run serves a handler at a path and returns what ends it.
func run(t *testing.T, path string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := local.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := Server(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			server.Close()
			<-done
			l.Remove()
		})
	}
	t.Cleanup(stop)
	return stop
}

// home is a fresh BATON_HOME.
func home(t *testing.T) place.Places {
	t.Helper()
	return homeAt(t, filepath.Dir(socket(t)))
}

func homeAt(t *testing.T, dir string) place.Places {
	t.Helper()
	p, err := place.Find(func(name string) string { return map[string]string{"BATON_HOME": dir}[name] })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func seconds(n int) *int { return &n }

var anybody = sessions.Caller{Principal: "local", Env: []string{"HOME=/home/u"}, Client: "test"}
