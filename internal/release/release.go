// Package release says which release this program is.
package release

// Version is set by the linker (-X github.com/batonmcp/baton/internal/release.Version=...).
var Version = "0.1.0-dev"
