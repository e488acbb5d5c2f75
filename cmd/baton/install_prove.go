package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/fixtures/directive"
	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/install"
	"github.com/batonmcp/baton/sessions"
)

// proof is what was seen when a registered command was started as its host starts it.
type proof struct {
	Protocol    string `json:"protocol"` // the version of MCP
	Tools       int    `json:"tools"`
	HandshakeMS int64  `json:"handshake_ms"` // from the start of the process to the answer of initialize
	Turn        string `json:"turn"`         // how the turn of the scripted agent ended
	Stopped     string `json:"stopped"`      // confirmed or unconfirmed
	TotalMS     int64  `json:"total_ms"`
}

// prove starts a registered command twice, as it is written: in its own environment, where it must answer as an MCP
// server and reach its host; and with a folder of its own for everything that Baton keeps, where a scripted agent takes
// one turn, so that the user's own sessions are not touched.
func prove(ctx context.Context, environ []string, cmd install.Command) (p *proof, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proveLimit, fmt.Errorf("the proof took longer than %s", proveLimit))
	defer cancel()
	began := time.Now()
	home, err := newDemoHome(false)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, home.remove())
		if err != nil && home.logs != "" {
			err = fmt.Errorf("%w\n%s", err, home.logs)
		}
	}()
	p = new(proof)
	if err := proveHandshake(ctx, p, home, environ, cmd); err != nil {
		return nil, err
	}
	if err := proveTurn(ctx, p, home, environ, cmd); err != nil {
		return nil, fmt.Errorf("a turn with a scripted agent: %w", err)
	}
	p.TotalMS = time.Since(began).Milliseconds()
	return p, nil
}

// startRegistered starts a command without a shell, as hosts do. What it says on stderr is kept.
func startRegistered(ctx context.Context, home *demoHome, environ []string, cmd install.Command) (*demoClient, error) {
	log, err := os.OpenFile(filepath.Join(home.dir, "mcp.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.Command(cmd.Program, cmd.Args...)
	c.Env, c.Dir, c.Stderr = environ, home.dir, log
	client, err := connectDemoClient(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("it cannot be started: %w", err)
	}
	if err := client.greet(ctx); err != nil {
		return nil, err
	}
	return client, nil
}

func proveHandshake(ctx context.Context, p *proof, home *demoHome, environ []string, cmd install.Command) error {
	began := time.Now()
	c, err := startRegistered(ctx, home, environ, cmd)
	if err != nil {
		return err
	}
	defer c.close()
	p.HandshakeMS, p.Protocol = time.Since(began).Milliseconds(), c.speaks
	tools, err := c.mcp.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	p.Tools = len(tools.Tools)
	if p.Tools == 0 {
		return errors.New("it offers no tools")
	}
	// Every set of tools has this resource, and it is the host that knows it.
	if _, err := c.mcp.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "baton://sessions"}}); err != nil {
		return fmt.Errorf("its host does not answer: %w", err)
	}
	return c.close()
}

// proveTurn plays one turn in a home of its own.
func proveTurn(ctx context.Context, p *proof, home *demoHome, environ []string, cmd install.Command) (err error) {
	own := home.environ()
	environ = slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "BATON_") && name != "BATON_SANDBOX_RUNG" && name != "BATON_LOG"
	})
	for _, e := range own { // what the demo sets
		if strings.Contains(e, home.dir) {
			environ = append(environ, e)
		}
	}
	compat := slices.ContainsFunc(cmd.Args, func(a string) bool { return strings.HasPrefix(a, "--compat") })
	if compat { // its runner is always codex
		environ = append(environ, config.Variable("codex")+"="+config.EmbeddedAgent)
	}
	c, err := startRegistered(ctx, home, environ, cmd)
	if err != nil {
		return err
	}
	seen := demoCensus{}
	defer func() { err = errors.Join(err, endProof(ctx, c, home, seen)) }()
	const words = 5
	if compat {
		return proveCompat(ctx, p, home, c, seen, words)
	}
	s := &demoSession{runner: demoCodex}
	made, err := demoCall[sessions.CreateResult](ctx, c, "session_create", sessions.CreateArgs{Runner: demoCodex, Cwd: home.workspace(demoCodex), Title: "proof"})
	if err != nil {
		return err
	}
	s.Session = made.Session
	if _, err := seen.look(c.pid()); err != nil {
		return err
	}
	t, err := s.send(ctx, c, fmt.Sprintf("[say %d]", words))
	if err != nil {
		return err
	}
	if err := s.settle(ctx, c, t, sessions.CommandCompleted); err != nil {
		return err
	}
	if t.text.String() != directive.Words(words) {
		return fmt.Errorf("the agent said %q", t.text.String())
	}
	p.Turn = string(t.settled.State)
	closed, err := demoCall[sessions.CloseResult](ctx, c, "session_close", sessions.CloseArgs{SessionID: s.SessionID})
	if err != nil {
		return err
	}
	p.Stopped = closed.Stopped
	return nil
}

// proveCompat plays the turn with the tools of codex mcp-server, which know no end of a session.
func proveCompat(ctx context.Context, p *proof, home *demoHome, c *demoClient, seen demoCensus, words int) error {
	said, err := demoCall[struct{ Content string }](ctx, c, "codex", map[string]any{"prompt": fmt.Sprintf("[say %d]", words), "cwd": home.workspace(demoCodex)})
	if err != nil {
		return err
	}
	if _, err := seen.look(c.pid()); err != nil {
		return err
	}
	if said.Content != directive.Words(words) {
		return fmt.Errorf("the agent said %q", said.Content)
	}
	p.Turn = string(sessions.CommandCompleted)
	who := sessions.Caller{Principal: sessions.DefaultPrincipal}
	list, err := home.client().List(ctx, who, sessions.ListArgs{})
	if err != nil {
		return err
	}
	for _, s := range list.Sessions {
		closed, err := home.client().Close(ctx, who, sessions.CloseArgs{SessionID: s.SessionID})
		if err != nil {
			return err
		}
		p.Stopped = closed.Stopped
	}
	return nil
}

// endProof ends the front end and the host of a proof, and waits for their processes: the folder is removed next.
func endProof(ctx context.Context, c *demoClient, home *demoHome, seen demoCensus) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoTidyLimit)
	defer cancel()
	d := &demo{home: home, mcp: c, seen: seen}
	if _, err := seen.look(c.pid()); err != nil {
		return errors.Join(err, c.close())
	}
	alive, err := seen.left(home.dir)
	if err != nil {
		return errors.Join(err, c.close())
	}
	if len(alive) == 0 {
		return c.close()
	}
	return d.closeAll(ctx)
}
