// Package host is the daemon: the only process that opens the journal, and the owner of identity, idempotency, queues,
// waiting and the reaping of sessions.
//
// Every verb is one transaction that checks, moves the state machines and writes the intent; only after its commit does
// the session's tender, the one goroutine that speaks to the session's bridge, carry it out. What the bridge reports
// comes back the same way: a batch of frames is one transaction, and only after its commit are the frames acknowledged
// and the waiters woken. So a host that is killed anywhere leaves nothing half-made: its successor adopts the bridges
// that live, settles those that do not, and gives each bridge the inputs it lacks.
package host
