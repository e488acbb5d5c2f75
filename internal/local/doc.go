// Package local holds what programs of one user on one machine need to find and trust each other: private folders,
// locks that end with their process, unix sockets at paths of any length, and a check of who is at the other end.
//
// It keeps other users out, and on Linux also processes of a session that live in a pid namespace of their own. It is
// no wall between programs of the same user in the same namespace.
package local
