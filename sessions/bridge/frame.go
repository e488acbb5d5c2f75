package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// Protocol is the version of the frames. A bridge serves a host of a newer version as long as the number is the same.
const Protocol = 1

// MaxFrame bounds one frame in bytes; an agent's line is at most 64 MiB, and an event carries it at most twice.
const MaxFrame = 160 << 20

// Frame types. A host sends attach first, then in, ack, ping and end; a bridge sends hello or refuse first, then got, pong
// and out.
const (
	typeAttach = "attach"
	typeHello  = "hello"
	typeRefuse = "refuse"
	typeIn     = "in"
	typeEnd    = "end" // not numbered: end now, although the host can neither record that nor acknowledge what is left
	typeGot    = "got" // not numbered: the inputs up to N were received
	typeOut    = "out"
	typeAck    = "ack"  // out frames up to N are durable
	typePing   = "ping" // not numbered: is anybody there? Only for a bridge whose hello says that it answers
	typePong   = "pong" // not numbered: the answer to every ping up to now
)

// Kind is what an in or out frame carries.
type Kind string

// Inputs, in the order of their numbers. Open, Probe or Foreign is always number 1.
const (
	InOpen    Kind = "open"    // Spec
	InProbe   Kind = "probe"   // Spec
	InForeign Kind = "foreign" // ForeignInput
	InPrompt  Kind = "prompt"  // PromptInput
	InAnswer  Kind = "answer"  // sessions.Answer
	InCancel  Kind = "cancel"  // CancelInput
	InClose   Kind = "close"   // CloseInput
	InVoid    Kind = "void"    // the number of an input that is not to be given to the agent
)

// Outputs.
const (
	OutEvent   Kind = "event"       // sessions.Event
	OutInput   Kind = "input"       // InputResult
	OutOpened  Kind = "opened"      // sessions.Opened
	OutFailed  Kind = "open_failed" // Failure
	OutProbed  Kind = "probed"      // sessions.Probe
	OutForeign Kind = "foreign"     // sessions.ForeignSaid
	OutExited  Kind = "exited"      // Exit: the agent is gone
	OutStopped Kind = "stopped"     // Stopped: the last frame of a bridge
)

// Frame is one line of the protocol, in either direction.
type Frame struct {
	Type    string          `json:"t"`
	N       uint64          `json:"n,omitempty"`
	Channel int             `json:"ch,omitempty"` // 0: the session; more streams may follow
	Kind    Kind            `json:"k,omitempty"`
	Body    json.RawMessage `json:"b,omitempty"`

	Event *sessions.Event `json:"-"` // the body, for whoever has decoded it before
}

// Attach is the body of a host's first frame.
type Attach struct {
	Protocol   int    `json:"protocol"`
	Version    string `json:"version"`
	Generation string `json:"generation"`
	Epoch      int64  `json:"epoch"` // of the host; a connection of an older host is fenced by a newer one
	After      uint64 `json:"after"` // the last out frame that is durable
}

// Hello is the body of a bridge's first frame.
type Hello struct {
	Protocol    int    `json:"protocol"`
	Version     string `json:"version"`
	Generation  string `json:"generation"`
	Epoch       int64  `json:"epoch"`
	LastIn      uint64 `json:"last_in"`   // the last input received
	FirstOut    uint64 `json:"first_out"` // the first frame still kept
	LastOut     uint64 `json:"last_out"`
	Inputs      []Kind `json:"inputs"` // what it understands
	Containment string `json:"containment"`
	Pings       bool   `json:"pings,omitempty"` // it answers pings; one of before there were any does not
}

// Spec starts the agent. It crosses the socket and nothing else: its environment is in no argv, file or log.
type Spec struct {
	Protocol string   `json:"protocol"` // app-server, acp
	Argv     []string `json:"argv"`
	Dir      string   `json:"dir"`
	// Pins are the directories that the session works in, as the host looked at them: the agent starts in the very one that
	// lies at Dir, and not at all when one of them was replaced. None: Dir is entered by its path.
	Pins             []sandbox.Pin       `json:"pins,omitempty"`
	Env              []string            `json:"env"`
	Secret           []string            `json:"secret,omitempty"` // names in Env that are secret whatever they are called
	Open             sessions.OpenParams `json:"open"`
	HandshakeSeconds int                 `json:"handshake_seconds"`
	StopSeconds      int                 `json:"stop_seconds,omitempty"`   // grace after stdin EOF, then SIGTERM; 0: 6
	OrphanSeconds    int                 `json:"orphan_seconds,omitempty"` // life without a host after the turn; 0: 900

	// Spawn starts a further program for the adapter, in the same containment, reaped by the same reaper. The bridge
	// sets it before it makes an adapter; it crosses no socket.
	Spawn func(sandbox.Spawn) (*sandbox.Child, error) `json:"-"`
	// Redact is for the texts that the adapter cuts. The bridge sets it, too.
	Redact sessions.Redactor `json:"-"`
}

// ForeignInput is a question about the agent's own conversations. Like a probe it has a bridge for itself.
type ForeignInput struct {
	Spec
	Ask sessions.ForeignAsk `json:"ask"`
}

// PromptInput is one command for the agent.
type PromptInput struct {
	sessions.Prompt
	DeadlineSeconds int `json:"deadline_seconds,omitempty"`
}

// CancelInput names the command to cancel; "" is a turn that the agent began by itself.
type CancelInput struct {
	Command string `json:"command"`
	Reason  string `json:"reason,omitempty"`
}

// CloseInput ends the agent and the bridge.
type CloseInput struct {
	Reason string `json:"reason,omitempty"`
}

// InputState is what became of an input.
type InputState string

const (
	InputWritten InputState = "written"
	InputRefused InputState = "refused" // no byte left
	InputBroken  InputState = "broken"  // bytes may have left
)

// InputResult reports an input's fate.
type InputResult struct {
	N     uint64          `json:"n"`
	Kind  Kind            `json:"kind"`
	Ref   string          `json:"ref,omitempty"` // command id or request handle
	State InputState      `json:"state"`
	Error *sessions.Error `json:"error,omitempty"`
}

// Failure is why an open or a probe did not succeed.
type Failure struct {
	Error *sessions.Error `json:"error"`
}

// Exit is how the agent ended.
type Exit struct {
	Code    int      `json:"code"`
	Signal  string   `json:"signal,omitempty"`
	Reason  string   `json:"reason"`            // one sentence
	Stderr  string   `json:"stderr,omitempty"`  // its last lines
	Stdout  string   `json:"stdout,omitempty"`  // its last lines that were none of its protocol
	Running []string `json:"running,omitempty"` // commands without an end
	Asked   bool     `json:"asked,omitempty"`   // the bridge was stopping it
	Taken   uint64   `json:"taken,omitempty"`   // as in Stopped
}

// Stopped says that the bridge is about to end.
type Stopped struct {
	Empty bool   `json:"empty"` // the namespace held no other process any more
	Why   string `json:"why"`
	Taken uint64 `json:"taken,omitempty"` // inputs after this one were not given to the agent, and never will be; 0: not told
}

// frameOf makes one line. It is written by hand around the body, and read so: a body that goes through the library once
// as itself and again as a part of its frame costs twice.
func frameOf(typ string, n uint64, kind Kind, body any) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, 512))
	b.WriteString(`{"t":`)
	b.Write(quoted(typ))
	if n > 0 {
		b.WriteString(`,"n":`)
		b.Write(strconv.AppendUint(b.AvailableBuffer(), n, 10))
	}
	if kind != "" {
		b.WriteString(`,"k":`)
		b.Write(quoted(string(kind)))
	}
	b.WriteString(`,"b":`)
	if body == nil {
		b.WriteString("null}\n")
		return b.Bytes(), nil
	}
	if err := encodeTo(b, body); err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", typ, kind, err)
	}
	b.Truncate(b.Len() - 1) // its newline
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func quoted(s string) []byte {
	if _, rest, ok := plain([]byte(s + `"`)); ok && len(rest) == 0 {
		return []byte(`"` + s + `"`)
	}
	q, _ := json.Marshal(s) // strings always encode
	return q
}

// encodeTo writes one line of JSON. < and & stay as they are: escaped they are six bytes, and what agents write is full
// of them.
func encodeTo(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

var errFrameTooLong = errors.New("a frame is too long")

// readFrame reads one line. An unreadable line ends the connection: both ends are ours.
func readFrame(r *bufio.Reader) (Frame, error) { return readFrameUpTo(r, MaxFrame) }

func readFrameUpTo(r *bufio.Reader, limit int) (Frame, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
		if len(line) > limit {
			return Frame{}, fmt.Errorf("%w: over %d bytes", errFrameTooLong, limit)
		}
	}
	if f, ok := splitFrame(line); ok {
		return f, nil
	}
	var f Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return Frame{}, fmt.Errorf("decode frame: %w", err)
	}
	return f, nil
}

// splitFrame takes a line apart that was written as frameOf does. The body is not looked at: whoever decodes it finds
// what is wrong with it.
func splitFrame(line []byte) (f Frame, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"t":"`))
	if !ok {
		return f, false
	}
	if f.Type, rest, ok = plain(rest); !ok {
		return f, false
	}
	if after, found := bytes.CutPrefix(rest, []byte(`,"n":`)); found {
		i := bytes.IndexByte(after, ',')
		if i < 0 {
			return f, false
		}
		n, err := strconv.ParseUint(string(after[:i]), 10, 64)
		if err != nil {
			return f, false
		}
		f.N, rest = n, after[i:]
	}
	if after, found := bytes.CutPrefix(rest, []byte(`,"k":"`)); found {
		var kind string
		if kind, rest, ok = plain(after); !ok {
			return f, false
		}
		f.Kind = Kind(kind)
	}
	body, ok := bytes.CutPrefix(rest, []byte(`,"b":`))
	if !ok {
		return f, false
	}
	body, ok = bytes.CutSuffix(body, []byte("}\n"))
	if f.Body = body; len(body) == 0 || body[0] == ' ' {
		return f, false
	}
	return f, ok
}

// plain reads a string of letters and underscores to its closing quote.
func plain(b []byte) (s string, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == '"':
			return string(b[:i]), b[i+1:], true
		case c != '_' && (c < 'a' || c > 'z'):
			return "", nil, false
		}
	}
	return "", nil, false
}
