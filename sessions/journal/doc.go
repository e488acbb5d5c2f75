// Package journal is the durable truth of Baton: one SQLite database in WAL mode, opened by one host process.
//
// It promises that an Update which returned nil survives a power cut, that no reader sees an event before it is that
// durable, that the updates of a group stand or fall one by one, and that event numbers of a session have no holes but
// those that retention cut. A state only moves through the Move methods, which ask the machines of package sessions
// inside the transaction that writes the answer. After an fsync that failed nothing is acknowledged any more until
// Reopen has rewritten and verified the file: a second fsync that succeeds proves nothing (Linux marks the lost pages
// clean).
//
// It does not decide anything: who may do what, what is sent to an agent and when, is the host's. Secrets have no
// column here.
package journal
