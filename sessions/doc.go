// Package sessions is Baton's vocabulary and truth: sessions, commands, requests, events, the state machines that
// move them, the closed table of error codes, and the interfaces that the other packages meet at.
//
// It promises that a state only ever moves along the edges of one function per machine (NextSession, NextCommand,
// NextRequest), that every refusal carries a code of the table in errors.go, and that the JSON of its types is the JSON
// of the tools, the command line and the journal alike. It does not promise durability (sessions/journal does), nor
// process control (sandbox), and it imports none of the packages that implement its interfaces.
package sessions
