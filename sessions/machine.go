package sessions

import (
	"errors"
	"fmt"
)

// ImpossibleError is returned for a transition that a state machine does not have. It is journalled by whoever meets it;
// in tests MustBePossible turns it into a panic.
type ImpossibleError struct{ Machine, State, Event string }

func (e *ImpossibleError) Error() string {
	return fmt.Sprintf("impossible transition: %s in state %q got %q", e.Machine, e.State, e.Event)
}

// MustBePossible panics when err is an ImpossibleError. Tests give it to whoever meets transitions.
func MustBePossible(err error) {
	var e *ImpossibleError
	if errors.As(err, &e) {
		panic(e)
	}
}

// SessionState is the state of a session.
type SessionState string

const (
	SessionReserved SessionState = "reserved" // durable, no process yet
	SessionStarting SessionState = "starting" // bridge spawned, handshake under way
	SessionIdle     SessionState = "idle"     // confirmed, no running command
	SessionRunning  SessionState = "running"  // one command submitted or accepted
	SessionClosing  SessionState = "closing"  // stop under way
	SessionClosed   SessionState = "closed"   // stopped; resumable
	SessionFailed   SessionState = "failed"   // ended by a fault; resumable
	SessionDeleted  SessionState = "deleted"  // gone for good
)

// SessionStates is every state of a session.
func SessionStates() []SessionState {
	return []SessionState{SessionReserved, SessionStarting, SessionIdle, SessionRunning, SessionClosing, SessionClosed,
		SessionFailed, SessionDeleted}
}

// SessionEvent moves a session.
type SessionEvent string

const (
	SessionStart  SessionEvent = "start"  // a bridge is about to be spawned (create or resume)
	SessionOpened SessionEvent = "opened" // the agent confirmed everything
	SessionBusy   SessionEvent = "busy"   // a command was submitted, or the agent started a turn by itself
	SessionFree   SessionEvent = "free"   // the running command reached a terminal state
	SessionClose  SessionEvent = "close"  // a caller asked for the end
	SessionStop   SessionEvent = "stop"   // the process tree is stopped (proven or marked)
	SessionFail   SessionEvent = "fail"   // start, agent or bridge failed
	SessionDelete SessionEvent = "delete" // a caller asked to forget it
)

// NextSession is the whole machine of a session.
func NextSession(s SessionState, e SessionEvent) (SessionState, error) {
	if e == SessionFail && s != SessionDeleted {
		return SessionFailed, nil
	}
	switch s {
	case SessionReserved:
		switch e {
		case SessionStart:
			return SessionStarting, nil
		}
	case SessionStarting:
		switch e {
		case SessionOpened:
			return SessionIdle, nil
		case SessionClose:
			return SessionClosing, nil
		}
	case SessionIdle:
		switch e {
		case SessionBusy:
			return SessionRunning, nil
		case SessionClose:
			return SessionClosing, nil
		}
	case SessionRunning:
		switch e {
		case SessionFree:
			return SessionIdle, nil
		case SessionClose:
			return SessionClosing, nil
		}
	case SessionClosing:
		switch e {
		case SessionStop:
			return SessionClosed, nil
		}
	case SessionClosed, SessionFailed:
		switch e {
		case SessionStart:
			return SessionStarting, nil
		case SessionDelete:
			return SessionDeleted, nil
		}
	}
	return s, &ImpossibleError{"session", string(s), string(e)}
}

// Live tells whether a session in this state has, or is about to have, a bridge.
func (s SessionState) Live() bool {
	switch s {
	case SessionStarting, SessionIdle, SessionRunning, SessionClosing:
		return true
	}
	return false
}

// CommandState is the state of a command.
type CommandState string

const (
	CommandQueued            CommandState = "queued"             // durable, not given to the bridge
	CommandSubmitted         CommandState = "submitted"          // durable intent; its bytes may leave
	CommandAccepted          CommandState = "accepted"           // the agent showed that it took it
	CommandCompleted         CommandState = "completed"          // the agent ended the turn by itself
	CommandFailed            CommandState = "failed"             // the turn failed, or was never delivered
	CommandInterrupted       CommandState = "interrupted"        // cancelled, and nothing it started is left
	CommandCancelUnconfirmed CommandState = "cancel_unconfirmed" // cancelled, but the end of its work is not proven
	CommandCancelled         CommandState = "cancelled"          // cancelled while queued: no agent saw it
	CommandUnknown           CommandState = "unknown"            // agent or bridge lost before the end was known
)

// CommandStates is every state of a command.
func CommandStates() []CommandState {
	return []CommandState{CommandQueued, CommandSubmitted, CommandAccepted, CommandCompleted, CommandFailed,
		CommandInterrupted, CommandCancelUnconfirmed, CommandCancelled, CommandUnknown}
}

// CommandEvent moves a command.
type CommandEvent string

const (
	CommandSubmit            CommandEvent = "submit"
	CommandAccept            CommandEvent = "accept"
	CommandComplete          CommandEvent = "complete"
	CommandFail              CommandEvent = "fail"
	CommandInterrupt         CommandEvent = "interrupt"
	CommandInterruptUnproven CommandEvent = "interrupt_unproven"
	CommandCancelQueued      CommandEvent = "cancel_queued"
	CommandLost              CommandEvent = "lost"          // the agent or its bridge is gone
	CommandNotDelivered      CommandEvent = "not_delivered" // proof that no byte reached the agent
)

// NextCommand is the whole machine of a command.
func NextCommand(s CommandState, e CommandEvent) (CommandState, error) {
	terminal := map[CommandEvent]CommandState{CommandComplete: CommandCompleted, CommandFail: CommandFailed,
		CommandInterrupt: CommandInterrupted, CommandInterruptUnproven: CommandCancelUnconfirmed}
	switch s {
	case CommandQueued:
		switch e {
		case CommandSubmit:
			return CommandSubmitted, nil
		case CommandCancelQueued:
			return CommandCancelled, nil
		}
	case CommandSubmitted:
		if t, ok := terminal[e]; ok {
			return t, nil
		}
		switch e {
		case CommandAccept:
			return CommandAccepted, nil
		case CommandLost:
			return CommandUnknown, nil
		case CommandNotDelivered:
			return CommandFailed, nil
		}
	case CommandAccepted:
		if t, ok := terminal[e]; ok {
			return t, nil
		}
		if e == CommandLost {
			return CommandUnknown, nil
		}
	case CommandUnknown: // only evidence moves it
		if t, ok := terminal[e]; ok {
			return t, nil
		}
		if e == CommandNotDelivered {
			return CommandFailed, nil
		}
	}
	return s, &ImpossibleError{"command", string(s), string(e)}
}

// Terminal tells whether the command has an outcome that no longer changes.
func (s CommandState) Terminal() bool {
	switch s {
	case CommandCompleted, CommandFailed, CommandInterrupted, CommandCancelUnconfirmed, CommandCancelled:
		return true
	}
	return false
}

// Settled tells whether nothing more happens to the command by itself: a terminal state, or unknown.
func (s CommandState) Settled() bool { return s.Terminal() || s == CommandUnknown }

// RequestState is the state of an approval or question.
type RequestState string

const (
	RequestPending   RequestState = "pending"
	RequestAnswering RequestState = "answering" // the answer is durable and on its way
	RequestAnswered  RequestState = "answered"
	RequestWithdrawn RequestState = "withdrawn" // the agent no longer waits
	RequestExpired   RequestState = "expired"   // its generation ended, and no answer was given to the agent
	RequestUnknown   RequestState = "unknown"   // lost between answer and delivery
)

// RequestStates is every state of a request.
func RequestStates() []RequestState {
	return []RequestState{RequestPending, RequestAnswering, RequestAnswered, RequestWithdrawn, RequestExpired, RequestUnknown}
}

// RequestEvent moves a request.
type RequestEvent string

const (
	RequestAnswer   RequestEvent = "answer"
	RequestDeliver  RequestEvent = "deliver"  // the answer's bytes were written to the agent
	RequestWithdraw RequestEvent = "withdraw" // the agent resolved or dropped it itself
	RequestLose     RequestEvent = "lose"     // its generation ended
	// RequestNotDelivered: its generation ended, with the proof that no byte of the answer reached the agent.
	RequestNotDelivered RequestEvent = "not_delivered"
)

// NextRequest is the whole machine of a request.
func NextRequest(s RequestState, e RequestEvent) (RequestState, error) {
	switch s {
	case RequestPending:
		switch e {
		case RequestAnswer:
			return RequestAnswering, nil
		case RequestWithdraw:
			return RequestWithdrawn, nil
		case RequestLose:
			return RequestExpired, nil
		}
	case RequestAnswering:
		switch e {
		case RequestDeliver:
			return RequestAnswered, nil
		case RequestWithdraw: // it was withdrawn before our bytes left
			return RequestWithdrawn, nil
		case RequestLose:
			return RequestUnknown, nil
		case RequestNotDelivered:
			return RequestExpired, nil
		}
	}
	return s, &ImpossibleError{"request", string(s), string(e)}
}
