//go:build !windows

// Package notonwindows has nothing in it, and on Windows not even that. Whoever builds Baton there is told so by its name,
// in one line and before anything else: it holds agents by what only Linux and macOS have. In WSL 2 it is on Linux.
package notonwindows
