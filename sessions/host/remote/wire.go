package remote

import (
	"encoding/json"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Protocol is the number of what is spoken here. It changes when a call of one side would mean something else, or
// nothing, to the other; a host refuses calls of any other number.
const Protocol = 1

// MaxBody bounds the body of a call: a prompt of sessions.MaxPromptBytes fits with every byte escaped.
const MaxBody = 8 << 20

// maxAnswer bounds what a client reads of an answer.
const maxAnswer = 64 << 20

const (
	protocolHeader = "Baton-Protocol"
	watchHeader    = "Baton-Watch"   // the id of the caller's watch over changes
	lastsHeader    = "Baton-Lasts"   // the answer holds until the watch of its call tells of a change
	passiveHeader  = "Baton-Passive" // the call only watches, see sessions.Passive
	prefix         = "/v1/"
)

// The verbs of the API, as the last part of the path.
const (
	verbRunnerList  = "runner_list"
	verbCreate      = "create"
	verbSend        = "send"
	verbWait        = "wait"
	verbRead        = "read"
	verbRespond     = "respond"
	verbCancel      = "cancel"
	verbClose       = "close"
	verbResume      = "resume"
	verbList        = "list"
	verbChanged     = "changed"
	verbForeign     = "foreign"
	verbForeignRead = "foreign_read"
	verbAdopt       = "adopt"
	verbStatus      = "status"
	verbStop        = "stop"
	verbWatch       = "watch"
)

// Status is what a host says about itself.
type Status struct {
	Version  string    `json:"version"`
	Protocol int       `json:"protocol"`
	PID      int       `json:"pid"`
	Epoch    int64     `json:"epoch"` // counts the hosts of this state directory
	Started  time.Time `json:"started,omitzero"`
	State    string    `json:"state,omitempty"` // its state directory
	Live     int       `json:"live"`            // sessions with a living bridge
	// Owners are the principals of those, and how many each has.
	Owners map[string]int `json:"owners,omitempty"`
}

// Stopped is the answer to a stop: the host that goes, and what goes on without it.
type Stopped struct {
	Status
	Keeps []string `json:"keeps,omitempty"` // ids of the sessions whose bridges stay
}

// call is the body of a call.
type call[A any] struct {
	Who  sessions.Caller `json:"who"`
	Args A               `json:"args"`
}

// failure is the body of every answer that is not 200.
type failure struct {
	Error    *sessions.Error `json:"error"`
	Protocol int             `json:"protocol"`
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInternal, "cannot encode %T: %w", v, err)
	}
	return b, nil
}
