package remote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/batonmcp/baton/internal/failpoint"
	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
)

// HandlerOptions are what Handler needs beside the API.
type HandlerOptions struct {
	// Status says what the host is; nil: only the protocol is told.
	Status func() Status
	// Stop begins the end of the host and says what stays; the process must outlive the answer. nil: unsupported.
	Stop func(ctx context.Context) (Stopped, error)
	// Records gives what the API does not: the journal itself. nil: unsupported.
	Records Records
	// Read gives what the API's Read gives as the JSON that its callers get. nil: what the API gives is encoded.
	Read func(context.Context, sessions.Caller, sessions.ReadArgs) ([]byte, error)
	// Foreign answers about conversations that are no sessions. nil: unsupported.
	Foreign sessions.ForeignAPI
	// Changes are those of what List and Wait read. While there is none, their answers stay the same. nil: nothing is
	// remembered.
	Changes *Changes
	// Token is the secret that every call must carry; "": none is asked for.
	Token string
	// Logger takes faults; nil: none.
	Logger *zerolog.Logger
}

type handler struct {
	o     HandlerOptions
	log   zerolog.Logger
	lists known
	waits known
}

// Handler serves the API. The context of a call ends when its client goes away. Callers' arguments are decoded
// strictly: an unknown member is refused, since it may be a condition that was to hold.
func Handler(api sessions.API, o HandlerOptions) http.Handler {
	h := &handler{o: o, log: zerolog.Nop(), lists: known{changes: o.Changes}, waits: known{changes: o.Changes}}
	if o.Logger != nil {
		h.log = *o.Logger
	}
	mux := http.NewServeMux()
	serve(mux, h, verbRunnerList, api.RunnerList)
	serve(mux, h, verbCreate, api.Create)
	serve(mux, h, verbSend, api.Send)
	serveKnown(mux, h, verbWait, &h.waits, api.Wait,
		// a wait that ran out is another one the next time, and one for any session takes what was seen before it
		func(a sessions.WaitArgs, r sessions.WaitResult) bool { return len(a.SessionIDs) > 0 && !r.TimedOut })
	if o.Read != nil {
		serve(mux, h, verbRead, func(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (encoded, error) {
			page, err := o.Read(ctx, who, a)
			return encoded{body: page}, err
		})
	} else {
		serve(mux, h, verbRead, api.Read)
	}
	serve(mux, h, verbRespond, api.Respond)
	serve(mux, h, verbCancel, api.Cancel)
	serve(mux, h, verbClose, api.Close)
	serve(mux, h, verbResume, api.Resume)
	serveKnown(mux, h, verbList, &h.lists, api.List,
		func(a sessions.ListArgs, _ sessions.ListResult) bool { return a.Cwd == "" }) // where links lead changes without us
	serve(mux, h, verbChanged, api.Changed)
	if o.Foreign != nil {
		serve(mux, h, verbForeign, o.Foreign.Foreign)
		serve(mux, h, verbForeignRead, o.Foreign.ForeignRead)
		serve(mux, h, verbAdopt, o.Foreign.Adopt)
	}
	if o.Records != nil {
		h.serveRecords(mux, o.Records)
	}
	mux.HandleFunc("GET "+prefix+verbStatus, h.guarded(func(*http.Request) (any, error) { return h.status(), nil }))
	if o.Changes != nil {
		mux.HandleFunc("GET "+prefix+verbWatch, h.watch)
	}
	mux.HandleFunc("POST "+prefix+verbStop, h.guarded(func(r *http.Request) (any, error) {
		if o.Stop == nil {
			return nil, sessions.Errorf(sessions.CodeUnsupported, "this host cannot be stopped by a call").Do("end its process; sessions go on")
		}
		return o.Stop(r.Context())
	}))
	mux.HandleFunc("/", h.guarded(func(r *http.Request) (any, error) {
		return nil, sessions.Errorf(sessions.CodeUnsupported, "no call %s %s", r.Method, r.URL.Path).
			Do("use one version of baton for the host and its callers")
	}))
	return mux
}

// Passive tells whether a call only watches, see sessions.Passive.
func Passive(r *http.Request) bool { return r.Header.Get(passiveHeader) != "" }

// Server makes the server for a Handler. It has no read timeout: one that runs out would end the context of a call that
// waits.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
}

func (h *handler) status() Status {
	s := Status{}
	if h.o.Status != nil {
		s = h.o.Status()
	}
	s.Protocol = Protocol
	return s
}

// serve adds one verb of the API.
func serve[A, R any](mux *http.ServeMux, h *handler, verb string, do func(context.Context, sessions.Caller, A) (R, error)) {
	serveKnown(mux, h, verb, new(known), do, func(A, R) bool { return false })
}

// encoded is an answer that is written as it is.
type encoded struct {
	body  []byte
	lasts bool // until the watch of the call tells of a change
}

// serveKnown adds a verb whose answers are remembered where they last.
func serveKnown[A, R any](mux *http.ServeMux, h *handler, verb string, k *known, do func(context.Context, sessions.Caller, A) (R, error), lasts func(A, R) bool) {
	mux.HandleFunc("POST "+prefix+verb, h.guarded(func(r *http.Request) (any, error) {
		if err := sameProtocol(r.Header.Get(protocolHeader)); err != nil {
			return nil, err
		}
		body, err := bodyOf(r)
		if err != nil {
			return nil, err
		}
		watched := k.changes != nil && k.changes.arm(r.Header.Get(watchHeader)) // before it is read what may change
		answer, at := k.find(body)
		if answer != nil {
			return encoded{answer, watched}, nil
		}
		var c call[A]
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		result, err := do(r.Context(), c.Who, c.Args)
		if err != nil || !lasts(c.Args, result) {
			return result, err
		}
		if answer, err = encode(result); err == nil {
			k.keep(body, answer, at)
		}
		return encoded{answer, watched && k.lasts(at)}, err
	}))
}

// guarded checks the token, answers, and turns a panic into an answer: a broken connection would have the client make
// the call that panics again.
func (h *handler) guarded(do func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := func() (result any, err error) {
			defer func() {
				if p := recover(); p != nil {
					h.log.Error().Str("path", r.URL.Path).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a call panicked")
					err = sessions.Errorf(sessions.CodeInternal, "the host panicked in %s: %v", r.URL.Path, p).
						Do("look at the session for what was done, and report the panic with the host's log")
				}
			}()
			if err := h.admit(r); err != nil {
				return nil, err
			}
			return do(r)
		}()
		if errors.Is(err, ErrHostEnds) {
			panic(http.ErrAbortHandler) // the connection breaks off, and the client makes the call again, to the next host
		}
		ready, whole := result.(encoded)
		body := ready.body
		if err == nil && !whole {
			body, err = encode(result)
		}
		code := http.StatusOK
		if err != nil {
			e := sessions.AsError(err).Whole()
			code = statusOf(err, e.Code)
			if body, err = encode(failure{e, Protocol}); err != nil { // details that no JSON can hold
				body, _ = encode(failure{&sessions.Error{Code: e.Code, Message: e.Message, Action: e.Action}, Protocol})
			}
		}
		failpoint.Hit("host.answer.before")
		w.Header().Set("Content-Type", "application/json")
		if ready.lasts && err == nil {
			w.Header().Set(lastsHeader, "1")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(code)
		w.Write(body)
		failpoint.Hit("host.answer.after")
	}
}

// ErrHostEnds is wrapped by the error of a call that a host which stops does not bring to its end. Its client asks the
// next host.
var ErrHostEnds = errors.New("the host is stopping")

var (
	errToken    = errors.New("the call does not carry this host's token")
	errProtocol = errors.New("another protocol")
)

func (h *handler) admit(r *http.Request) error {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if h.o.Token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(h.o.Token)) == 1 {
		return nil
	}
	return sessions.Errorf(sessions.CodeInvalidParams, "%w: it may belong to another state directory", errToken).
		Do("check that BATON_HOME and the XDG variables are those that the host was started with")
}

func sameProtocol(theirs string) error {
	if theirs == strconv.Itoa(Protocol) {
		return nil
	}
	return sessions.Errorf(sessions.CodeUnsupported, "%w: the caller speaks protocol %.20q, and the running host speaks %d", errProtocol, theirs, Protocol).
		Do("use one version of baton for both: stop the host (baton host stop) when it is the older one")
}

// bodyOf reads the body to its end, which is also what lets net/http notice a client that goes away.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxBody))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, sessions.Errorf(sessions.CodeLimitExceeded, "the call has more than %d bytes", MaxBody).Do("send less at once")
	}
	if err != nil {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the body of the call broke off: %w", err).Do("make the call again")
	}
	return body, nil
}

// decode reads the body of a call, strictly. encoding/json says what is wrong with one.
func decode[T any](body []byte, into *T) error {
	if own.UnmarshalStrict(body, into) == nil {
		return nil
	}
	*into = *new(T)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return sessions.Errorf(sessions.CodeInvalidParams, "the body of the call cannot be decoded: %w", err).
			Do("use one version of baton for the host and its callers")
	}
	if _, err := d.Token(); err != io.EOF {
		return sessions.Errorf(sessions.CodeInvalidParams, "the body of the call holds more than one value").Do("send one call in a request")
	}
	return nil
}

// statusOf is for people with curl and for the two cases a client must tell apart; programs read the body's code.
func statusOf(err error, code sessions.Code) int {
	switch {
	case errors.Is(err, errToken):
		return http.StatusUnauthorized
	case errors.Is(err, errProtocol):
		return http.StatusUpgradeRequired
	}
	switch code {
	case sessions.CodeInvalidParams:
		return http.StatusBadRequest
	case sessions.CodeNotFound:
		return http.StatusNotFound
	case sessions.CodeLimitExceeded:
		return http.StatusRequestEntityTooLarge
	case sessions.CodeInternal:
		return http.StatusInternalServerError
	default:
		return http.StatusConflict
	}
}
