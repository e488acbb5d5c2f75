module github.com/batonmcp/baton

go 1.26.8

require (
	github.com/coder/acp-go-sdk v0.13.0 // tests: a second ACP peer, so that acp is not held against our own reading alone
	github.com/creack/pty v1.1.24 // tests: a terminal of their own for attach, run and Ctrl-C
	github.com/go-json-experiment/json v1.27.2 // what Baton wrote itself is decoded by encoding/json/v2: four times on its way, each in a third of the time
	github.com/google/uuid v1.6.0 // identifiers: version 7 and 5
	github.com/mark3labs/mcp-go v1.2.1 // MCP: message types, sessions of both protocol eras, the client in demo and tests
	github.com/ncruces/go-sqlite3 v0.37.0 // the journal: SQLite without cgo, over a file system that tests can cut the power of
	github.com/pelletier/go-toml/v2 v2.4.3 // the configuration, read strictly, with the line in every error
	github.com/rogpeppe/go-internal v1.16.0 // tests: testscript, scripts over the real binary
	github.com/rs/zerolog v1.35.1 // logs
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2 // tests: what agents say and what tools answer, held against pinned schemas
	github.com/sourcegraph/jsonrpc2 v0.2.3 // calls and answers over an agent's stdio
	github.com/spf13/cobra v1.10.2 // the command line
	github.com/spf13/pflag v1.0.9 // cobra's flags: a set that several commands share
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // hosts' configurations: JSON with comments and trailing commas, with the place of every member
	go.uber.org/goleak v1.3.0 // tests: no goroutine is left
	golang.org/x/mod v0.43.0 // which of two versions of Baton is the newer one
	golang.org/x/sync v0.25.0 // groups of goroutines that are waited for
	golang.org/x/sys v0.50.0 // namespaces, pidfds, locks
	golang.org/x/term v0.48.0 // whether there is a terminal, how wide it is, and answers that it must not echo
	pgregory.net/rapid v1.3.0 // tests: state machines against a model
)

require (
	github.com/google/jsonschema-go v0.4.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)
