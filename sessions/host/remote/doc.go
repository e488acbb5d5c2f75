// Package remote carries sessions.API between processes of one user: HTTP with JSON bodies over the host's unix socket.
//
// Handler is the host's end. Client is the other: it starts a host when there is none, and when the host dies in the
// middle of a call it makes the same call again to the next one. It may, because it gives every mutating call a key
// before the first attempt, and a host does nothing twice under one key. What it promises is an answer of some host, or
// an error that says whether the call may have had an effect; it does not promise that the call was made only once.
//
// Both ends name their protocol in every exchange. The paths of status and stop, and their results' known members, stay
// the same in every protocol, so that hosts and front ends of different versions can find that out and part.
package remote
