package mcpserver

import (
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/httpd"
	"github.com/batonmcp/baton/sessions"
)

// serveConformance serves what the suite expects over HTTP, walls included: everything between the socket and the tools is
// what `baton host run --http` serves. The suite knows no tokens, so a proxy adds one; it passes the rest on, the Host and
// Origin headers among it.
func serveConformance(t *testing.T) string {
	t.Helper()
	tokens := httpd.Tokens{Path: filepath.Join(t.TempDir(), "state", "tokens.json")}
	_, secret, err := tokens.Make("suite", "", []string{"/"})
	if err != nil {
		t.Fatal(err)
	}
	var behind *url.URL // set before the proxy serves anybody
	through := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = behind.Scheme, behind.Host, r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+secret)
	}}
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Whole: an answer that comes before a proxy has met the end of a call's body is given up by it.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	port := strconv.Itoa(proxy.Listener.Addr().(*net.TCPAddr).Port)
	h, err := httpd.Listen(httpd.Options{Address: "127.0.0.1:0", Names: []string{"localhost:" + port, "127.0.0.1:" + port}, Tokens: tokens, Log: zerolog.New(os.Stderr).Level(zerolog.WarnLevel),
		Serve: func(sessions.API, httpd.Token) http.Handler {
			s := New(&fake{}, Options{Version: "test", Elicit: true})
			offerConformance(t, s)
			return s.HTTP()
		}})
	if err != nil {
		t.Fatal(err)
	}
	behind = &url.URL{Scheme: "http", Host: h.Addr()}
	proxy.Start()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return "http://localhost:" + port + httpd.Path
}

// conformanceRun is one run of the suite, and what is expected of it.
type conformanceRun struct {
	program string // the variable that names the suite's program, a JavaScript file
	args    []string
	passed  int // checks
	failed  map[string]int
}

// noLogging: Baton offers no MCP logging, which 2026-07-28 has deprecated; its log is on standard error.
var noLogging = map[string]int{"logging-set-level": 1, "tools-call-with-logging": 1}

// noTasks: the extension for tasks is not offered; the suite does not count it. A call that lasts answers within its time
// slice, and what it began is followed by session_wait.
var noTasks = map[string]int{"tasks-lifecycle": 8, "tasks-capability-negotiation": 4, "tasks-wire-fields": 3, "tasks-request-state-removal": 1, "tasks-mrtr-input": 3,
	"tasks-request-headers": 3, "tasks-dispatch-and-envelope": 6, "tasks-required-task-error": 1, "tasks-mrtr-composition": 1}

var conformanceRuns = map[string]conformanceRun{
	"0.1.16":                          {"BATON_TEST_CONFORMANCE_0_1", nil, 37, noLogging},
	"0.2.0-alpha.12, 2025-11-25":      {"BATON_TEST_CONFORMANCE", []string{"--spec-version", "2025-11-25"}, 70, noLogging},
	"0.2.0-alpha.12, 2026-07-28":      {"BATON_TEST_CONFORMANCE", []string{"--requirements", "2026-07-28"}, 161, noTasks},
	"0.2.0-alpha.12, a broken stream": {"BATON_TEST_CONFORMANCE", []string{"--scenario", "server-sse-polling"}, 3, nil},
}

// verdicts are the lines of the suite's summary; a run of one scenario has a line of its own.
var verdicts = regexp.MustCompile(`(?m)^(?:[✓✗] ([\w-]+): (\d+) passed|Passed: (\d+)/\d+), (\d+) failed`)

// TestConformance: the official suite of the protocol (@modelcontextprotocol/conformance, which needs Node 22 or later) finds
// nothing else than what is named above.
func TestConformance(t *testing.T) {
	node := os.Getenv("BATON_TEST_NODE")
	if node == "" || os.Getenv("BATON_TEST_CONFORMANCE") == "" || os.Getenv("BATON_TEST_CONFORMANCE_0_1") == "" {
		t.Skip("BATON_TEST_NODE, BATON_TEST_CONFORMANCE and BATON_TEST_CONFORMANCE_0_1 are not set: the conformance suite does not look at the server")
	}
	at := serveConformance(t)
	t.Run("suite", func(t *testing.T) { // ends when all of its parts have
		for name, run := range conformanceRuns {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), node, append([]string{os.Getenv(run.program), "server", "--url", at}, run.args...)...)
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput() // whose status counts what is expected as well
				passed, failed := 0, map[string]int{}
				for _, v := range verdicts.FindAllSubmatch(out, -1) {
					p, _ := strconv.Atoi(string(v[2]) + string(v[3]))
					f, _ := strconv.Atoi(string(v[4]))
					if passed += p; f > 0 {
						failed[string(v[1])] = f
					}
				}
				t.Logf("%d checks passed, failed: %v", passed, failed)
				if passed != run.passed || !maps.Equal(failed, run.failed) {
					t.Errorf("%d passed, want %d; failed %v, want %v (%v)\n%s", passed, run.passed, failed, run.failed, err, out)
				}
			})
		}
	})
}
