// Package cli is what the commands of the shell do with sessions: each decodes nothing and decides nothing beyond its
// presentation, makes calls of sessions.API, and says what came of them to a person or, as the JSON objects of the MCP
// tools, to a program.
//
// It holds no truth: a command that is killed at any moment can be given again, and where its user gave a key nothing is
// done twice. What it promises beyond that is its manners: standard output carries results alone, a program that has no
// terminal is never asked anything, and the exit status tells how it ended.
package cli
