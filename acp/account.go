package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// accountTimeout bounds one of the commands below, and accountOutput what is read of it.
const (
	accountTimeout = 5 * time.Second
	accountOutput  = 64 << 10
)

// account is what Cursor's own commands say of its version and login: over ACP it names neither, and authenticate may
// open a browser when nobody is logged in.
type account struct {
	version string
	login   string // yes, no, unknown
}

// askAccount runs `cursor-agent about` and `cursor-agent status`, whose output has been JSON and text. What fails, or says
// something else, leaves things unknown.
func askAccount(ctx context.Context, o Options) account {
	a := account{login: "unknown"}
	if o.Start == nil || len(o.AccountCommand) == 0 {
		return a
	}
	said := map[string][]byte{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, word := range []string{"about", "status"} {
		asking.Go(func() {
			out := o.run(ctx, append(slices.Clone(o.AccountCommand), word, "--format", "json"))
			mu.Lock()
			defer mu.Unlock()
			said[word] = out
		})
	}
	asking.Wait()

	var about struct {
		Version string  `json:"cliVersion"`
		Email   *string `json:"userEmail"` // null for an API key, too
	}
	if decode(object(said["about"]), &about) == nil {
		a.version = about.Version
		if about.Email != nil && *about.Email != "" {
			a.login = "yes"
		}
	}
	var status struct {
		In *bool `json:"isAuthenticated"`
	}
	text := string(said["status"])
	switch {
	case decode(object(said["status"]), &status) == nil && status.In != nil:
		a.login = map[bool]string{true: "yes", false: "no"}[*status.In]
	case strings.Contains(text, "Logged in as"):
		a.login = "yes"
	case strings.Contains(text, "Not logged in"):
		a.login = "no"
	}
	return a
}

// object is the JSON object in the output of a command, which may have said something before it.
func object(out []byte) json.RawMessage {
	if i := bytes.IndexByte(out, '{'); i >= 0 {
		if j := bytes.LastIndexByte(out, '}'); j > i {
			return out[i : j+1]
		}
	}
	return json.RawMessage("null")
}

// run runs a command of the agent's and gives what it wrote. One that takes too long is killed.
func (o Options) run(ctx context.Context, argv []string) []byte {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	read, write, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer read.Close()
	p, err := o.Start(Program{Argv: argv, Dir: "/", Env: o.Env, Output: write})
	write.Close()
	if err != nil {
		o.Log.Debug().Err(err).Strs("argv", argv).Msg("account")
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		p.SignalGroup(syscall.SIGKILL)
		read.Close() // what it started may hold the pipe
	})
	defer stop()
	out, err := io.ReadAll(io.LimitReader(read, accountOutput))
	if err != nil {
		o.Log.Debug().Err(err).Strs("argv", argv).Msg("account")
	}
	p.SignalGroup(syscall.SIGKILL) // it has said all that is wanted of it
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	return out
}
