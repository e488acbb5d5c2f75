package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/internal/httpd"
	"github.com/batonmcp/baton/internal/place"
	"github.com/batonmcp/baton/mcpserver"
	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/host/remote"
)

// webFlags are those of `baton host run` that open its HTTP front end. Without an address nothing listens.
type webFlags struct {
	address   string
	beyond    bool
	names     []string
	cert, key string
}

func (f *webFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.address, "http", "", "serve MCP over HTTP at this address, 127.0.0.1:PORT; clients need a token (baton token new); the host then stays until it is stopped")
	s.BoolVar(&f.beyond, "http-beyond-loopback", false, "let --http name an address that other machines reach; needs a certificate")
	s.StringSliceVar(&f.names, "http-name", nil, "a further host name under which clients reach --http")
	s.StringVar(&f.cert, "http-cert", "", "the certificate of --http, a PEM file")
	s.StringVar(&f.key, "http-key", "", "the key of --http-cert")
}

// serve runs the host, and beside it the HTTP front end, which is a client of the host's socket like every other.
func (f webFlags) serve(ctx context.Context, places place.Places, cfg *config.Config, log zerolog.Logger, host func(ctx context.Context, serving func()) error) error {
	if f.address == "" {
		return host(ctx, nil)
	}
	cfg.Host.IdleExit = config.Never
	at := remote.At(places)
	at.Logger, at.Version = &log, version
	at.Start = func(context.Context) error { return nil } // the host is this process: a call that comes before it waits for it
	front, err := httpd.Listen(httpd.Options{Address: f.address, Beyond: f.beyond, Names: f.names, CertFile: f.cert, KeyFile: f.key,
		Tokens: tokens(places), API: remote.New(at), Log: log,
		Serve: func(api sessions.API, t httpd.Token) http.Handler {
			return mcpserver.New(api, mcpserver.Options{Caller: caller(t.Principal), Version: version, Logger: &log, Elicit: true}).HTTP()
		}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	serving, web := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-serving: // until then connections wait
			log.Info().Str("address", front.Addr()).Msg("MCP is served over HTTP")
		case <-ctx.Done():
		}
		err := front.Run(ctx)
		stop() // one does not go on without the other
		web <- err
	}()
	err = host(ctx, func() { close(serving) })
	stop()
	return errors.Join(err, <-web)
}

func tokens(p place.Places) httpd.Tokens {
	return httpd.Tokens{Path: filepath.Join(p.State, "http-tokens.json")}
}

func newToken() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make, list and revoke the tokens of clients over HTTP", Example: "  baton token list"}
	c.AddCommand(newTokenNew(), newTokenList(), newTokenRevoke())
	return c
}

// ownTokens are those of this environment; an agent has none to give away.
func ownTokens() (httpd.Tokens, error) {
	if os.Getenv(sandbox.MarkerEnv) != "" {
		return httpd.Tokens{}, errInside
	}
	places, err := place.Find(os.Getenv)
	return tokens(places), err
}

func newTokenNew() *cobra.Command {
	var principal string
	var folders []string
	var asJSON bool
	c := &cobra.Command{
		Use:     "new NAME --folder DIR...",
		Short:   "Make a token, and print its secret this once",
		Example: "  baton token new laptop --folder ~/projects",
		Args:    exactly(1, 1, "a name"),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := ownTokens()
			if err != nil {
				return err
			}
			t, secret, err := store.Make(args[0], principal, folders)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(os.Stdout).Encode(struct {
					httpd.Token
					Secret string `json:"secret"`
				}{t, secret})
			}
			fmt.Fprintf(os.Stderr, "token %s (%s), principal %s, folders %s; its secret is shown this once:\n", t.Name, t.ID, t.Principal, strings.Join(t.Folders, ", "))
			_, err = fmt.Println(secret)
			return err
		},
	}
	c.Flags().StringArrayVar(&folders, "folder", nil, "a folder in which its sessions may work; / is everywhere")
	c.Flags().StringVar(&principal, "principal", "", "whose sessions it reaches; by default its own, and with folders nobody else's")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newTokenList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the tokens", Example: "  baton token list --json", Args: exactly(0, 0, "no argument beside its flags"),
		RunE: func(*cobra.Command, []string) error {
			store, err := ownTokens()
			if err != nil {
				return err
			}
			all, err := store.List()
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(os.Stdout)
				for _, t := range all {
					t.Hash = ""
					if err := e.Encode(t); err != nil {
						return err
					}
				}
				return nil
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tPRINCIPAL\tMADE\tFOLDERS")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Principal, t.CreatedAt.Format("2006-01-02"), strings.Join(t.Folders, ", "))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one token a line")
	return c
}
