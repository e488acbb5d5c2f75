// Package appserver drives one `codex app-server` process as a sessions.Agent.
//
// It promises: a thread is opened without touching the user's config.toml; every setting that was asked for is compared
// with what Codex reports before the first prompt, and watched afterwards; a prompt goes out at most once and never
// into a running turn; a command is accepted, and settled exactly once, only on Codex's own word; every request of
// Codex gets an open entry or an answer, and never an answer of the adapter's own making; a cancel that Codex does not
// obey in time ends the link rather than pass for obeyed.
//
// It does not promise that a turn ends: Codex retries an unreachable provider for ever, so a deadline is the caller's
// (through Cancel). It starts and stops no process. What it says of Codex was seen in 0.171.0 unless another version is
// named; versions below 0.125, the oldest that the tests run with, are refused.
package appserver
