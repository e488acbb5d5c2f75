package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// conformant are the scenarios of the official suite that need none of the tools that it wants of a test server. Those are
// in the tests of mcpserver; here it is the host itself that is looked at.
var conformant = map[string][]string{
	"2025-11-25": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"},
	"2026-07-28": {"tools-list", "resources-list", "sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection", "caching", "http-header-validation",
		"input-required-result-unsupported-methods"},
}

// TestConformanceOfTheHost: what `baton host run --http` serves is what the suite wants, tokens and all. The suite knows no
// tokens, so a proxy adds one.
func TestConformanceOfTheHost(t *testing.T) {
	node, suite := os.Getenv("BATON_TEST_NODE"), os.Getenv("BATON_TEST_CONFORMANCE")
	if node == "" || suite == "" {
		t.Skip("BATON_TEST_NODE and BATON_TEST_CONFORMANCE are not set: the conformance suite does not look at the host")
	}
	t.Parallel()
	w := newWorld(t)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Replace(front.Addr().String(), "127.0.0.1", "localhost", 1)
	behind, err := url.Parse(w.serveHTTP("--http-name", name))
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ Secret string }
	if err := json.Unmarshal([]byte(w.baton("token", "new", "suite", "--folder", w.work, "--json")), &token); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // a proxy cannot send again what meets the end of an idle connection
	through := &httputil.ReverseProxy{FlushInterval: -1, Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = behind.Scheme, behind.Host, r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token.Secret)
	}}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Whole, since a server closes the body of a request with the head of its answer: a proxy that has not met its end by then
		// gives up both.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		through.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = proxy.Serve(front)
	}()
	defer func() {
		proxy.Close()
		<-served
		transport.CloseIdleConnections()
	}()
	for version, scenarios := range conformant {
		which := map[bool]string{true: "--requirements", false: "--spec-version"}[version >= "2026-07-28"]
		cmd := exec.Command(node, suite, "server", "--url", "http://"+name+behind.Path, which, version, "--output-dir", "results")
		cmd.Dir = t.TempDir()
		out, _ := cmd.CombinedOutput() // its status counts what cannot pass here
		for _, s := range scenarios {
			if !regexp.MustCompile(`(?m)^✓ ` + s + `: [1-9]\d* passed, 0 failed`).Match(out) {
				t.Errorf("%s: %s does not pass\n%s", version, s, out)
				checks, _ := filepath.Glob(filepath.Join(cmd.Dir, "results", "*"+s+"*", "checks.json"))
				for _, file := range checks {
					b, _ := os.ReadFile(file)
					t.Logf("%s\n%s", file, b)
				}
			}
		}
	}
}
