package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// Records is what a host can tell of its journal beside the API.
type Records interface {
	// CheckJournal returns what contradicts the journal's own rules.
	CheckJournal(ctx context.Context) ([]journal.Problem, error)
	// ExportSession writes all that is kept of a session of the caller, as lines of JSON. Nothing is written before it is
	// known to be the caller's.
	ExportSession(ctx context.Context, who sessions.Caller, session string, w io.Writer) error
	// ListAll lists the sessions of every principal, for the owner of the state directory.
	ListAll(ctx context.Context, a sessions.ListArgs) (sessions.ListResult, error)
}

const (
	verbCheckJournal  = "journal_check"
	verbExportSession = "session_export"
	verbListAll       = "list_all"
)

type (
	checkArgs   struct{}
	checkResult struct {
		Problems []journal.Problem `json:"problems"`
	}
	exportArgs struct {
		SessionID string `json:"session_id"`
	}
)

// failureTrailer carries the failure of an answer whose beginning was sent before.
const failureTrailer = "Baton-Failure"

func (h *handler) serveRecords(mux *http.ServeMux, r Records) {
	serve(mux, h, verbCheckJournal, func(ctx context.Context, _ sessions.Caller, _ checkArgs) (checkResult, error) {
		found, err := r.CheckJournal(ctx)
		return checkResult{found}, err
	})
	serve(mux, h, verbListAll, func(ctx context.Context, _ sessions.Caller, a sessions.ListArgs) (sessions.ListResult, error) {
		return r.ListAll(ctx, a)
	})
	mux.HandleFunc("POST "+prefix+verbExportSession, func(w http.ResponseWriter, q *http.Request) {
		s := &stream{ResponseWriter: w}
		h.guarded(func(q *http.Request) (any, error) {
			if err := sameProtocol(q.Header.Get(protocolHeader)); err != nil {
				return nil, err
			}
			var c call[exportArgs]
			body, err := bodyOf(q)
			if err != nil {
				return nil, err
			}
			if err := decode(body, &c); err != nil {
				return nil, err
			}
			return nil, r.ExportSession(q.Context(), c.Who, c.Args.SessionID, (*lines)(s))
		})(s, q)
	})
}

// stream is an answer that is sent while it is made, line by line. Before its first line it is an ordinary answer; after
// it, the answer that guarded makes is the last word: nothing, or the failure for the trailer.
type stream struct {
	http.ResponseWriter
	begun, failed bool
}

type lines stream

func (l *lines) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		h := l.ResponseWriter.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Trailer", failureTrailer)
		l.ResponseWriter.WriteHeader(http.StatusOK)
	}
	return l.ResponseWriter.Write(p)
}

func (s *stream) Header() http.Header {
	if s.begun {
		return http.Header{}
	}
	return s.ResponseWriter.Header()
}

func (s *stream) WriteHeader(status int) {
	if s.begun {
		s.failed = status != http.StatusOK
		return
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *stream) Write(p []byte) (int, error) {
	if !s.begun {
		return s.ResponseWriter.Write(p)
	}
	if s.failed {
		s.ResponseWriter.Header().Set(failureTrailer, string(p)) // JSON: no control characters
	}
	return len(p), nil
}

// CheckJournal asks the running host to check its journal; none is started (ErrNoHost).
func (c *Client) CheckJournal(ctx context.Context) ([]journal.Problem, error) {
	body, err := encode(call[checkArgs]{})
	if err != nil {
		return nil, err
	}
	var r checkResult
	ctx, end := c.attended(ctx)
	defer end()
	err = c.once(ctx, c.transport, http.MethodPost, verbCheckJournal, body, &r)
	return r.Problems, final(verbCheckJournal, err)
}

// ListAll lists the sessions of every principal.
func (c *Client) ListAll(ctx context.Context, a sessions.ListArgs) (sessions.ListResult, error) {
	return invoke[sessions.ListResult](ctx, c, verbListAll, "", sessions.Caller{}, a, nil)
}

// ExportSession copies what the running host exports of a session; none is started (ErrNoHost). An error after the
// first line leaves what was written incomplete.
func (c *Client) ExportSession(ctx context.Context, who sessions.Caller, session string, w io.Writer) error {
	body, err := encode(call[exportArgs]{who, exportArgs{session}})
	if err != nil {
		return err
	}
	ctx, end := c.attended(ctx)
	defer end()
	answer, err := c.roundTrip(ctx, c.transport, http.MethodPost, verbExportSession, body)
	if err != nil {
		return final(verbExportSession, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return final(verbExportSession, c.read(ctx, verbExportSession, answer, nil))
	}
	to := &sink{w: w}
	switch _, err = io.Copy(to, answer.Body); {
	case to.err != nil:
		return to.err
	case err != nil && ctx.Err() != nil:
		return final(verbExportSession, ended(ctx))
	case err != nil:
		return sessions.Errorf(sessions.CodeIncomplete, "the host ended before the export did: %w", err).Do("export it again")
	}
	if text := answer.Trailer.Get(failureTrailer); text != "" {
		var f failure
		if err := json.Unmarshal([]byte(text), &f); err != nil || f.Error == nil {
			return sessions.Errorf(sessions.CodeInternal, "the host ended the export with %.200q", text).
				Do("use one version of baton for the host and its callers")
		}
		return f.Error
	}
	return nil
}

// sink keeps the writer's own error apart from the connection's.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = errors.Join(s.err, err)
	return n, err
}
