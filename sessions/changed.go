package sessions

import "context"

// ChangedArgs asks to be woken when the caller's sessions are others than at a mark: one was created, deleted, or has a new
// event.
type ChangedArgs struct {
	Mark        string `json:"mark,omitempty"` // of an earlier answer, of whichever host; "" is never the present one
	WaitSeconds *int   `json:"wait_seconds,omitempty"`
}

// ChangedResult has the present mark. It is the one that was given when nothing has changed in time.
type ChangedResult struct {
	Mark string `json:"mark"`
}

type passiveKey struct{}

// Passive returns a context whose calls only watch: they start no host, and keep none from ending when it is idle. Where
// none runs they fail.
func Passive(ctx context.Context) context.Context { return context.WithValue(ctx, passiveKey{}, true) }

// IsPassive tells whether a context is one of Passive.
func IsPassive(ctx context.Context) bool { return ctx.Value(passiveKey{}) != nil }
