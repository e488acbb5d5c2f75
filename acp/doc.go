// Package acp drives an agent that speaks the Agent Client Protocol, version 1, over its standard input and output:
// Cursor's `cursor-agent acp` first, and any other that keeps to the protocol.
//
// It promises: no prompt leaves before every selection that was asked for is confirmed by the agent's own report; at
// most one prompt is in flight; each command settles exactly once while the link lives, with an outcome that the agent
// stated; what arrives after the end of a turn is marked as late and never reopens it; a request of the agent that
// carries an id always gets an answer; and a resumed conversation's replay is history, never output: that of a conversation
// which is adopted is told as such, marked.
//
// It does not promise that a cancelled turn's processes are gone: agents answer "cancelled" while a command of theirs
// runs on (codex-acp 2.6.0, zed's codex-acp 0.16.0). Nor that a confirmed model is the one that answers: Cursor confirms
// models that the account cannot use and says so only in the text of the turn (2026.04.15), which is flagged.
//
// One goroutine, the loop, owns all state. It takes the agent's messages and the callers' tasks one at a time, so the
// events come out in wire order. Where a task has to wait for an answer of the agent, the loop pumps on (await).
package acp
