package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/batonmcp/baton/sessions"
)

// The resources. Those of one session lie below sessionsURI, by its id.
const (
	schemaURI     = "baton://schema" // what the tool list has no room for
	sessionsURI   = "baton://sessions"
	sessionPrefix = sessionsURI + "/"
)

// What of a session is a resource of its own, behind its id; "" is the session itself.
const (
	partEvents     = "/events"
	partTranscript = "/transcript"
)

// shownSessions bounds how many sessions resources/list names, the newest first; baton://sessions has all.
const shownSessions = 25

func (s *Server) addResources(all []tool) {
	r := mcp.NewResource(schemaURI, "schema", mcp.WithMIMEType("application/json"),
		mcp.WithResourceDescription("JSON Schemas of the arguments and the full results of every tool, of errors and of events, and the meaning of every error code."))
	s.mcp.AddResource(r, func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := schemaText(all)
		return contents(ctx, schemaURI, "application/json", text, err)
	})
	if s.api == nil {
		return
	}
	r = mcp.NewResource(sessionsURI, "sessions", mcp.WithMIMEType("application/json"),
		mcp.WithResourceDescription("Every coding agent session, closed ones too, with its state."))
	s.mcp.AddResource(r, func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := s.listText(ctx)
		return contents(ctx, sessionsURI, "application/json", text, err)
	})
	for _, t := range []struct{ part, name, kind, about string }{
		{"", "session", "application/json", "One session: state, requests, running and last command, selections and evidence."},
		{partEvents + "{?after}", "events", "application/json", "The events of a session, page by page: after is the cursor of the page before."},
		{partTranscript, "transcript", "text/markdown", "What was said and done in a session, as Markdown."},
	} {
		s.mcp.AddResourceTemplate(mcp.NewResourceTemplate(sessionPrefix+"{id}"+t.part, t.name, mcp.WithTemplateDescription(t.about), mcp.WithTemplateMIMEType(t.kind)),
			func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				text, err := s.resourceText(ctx, r.Params.URI)
				return contents(ctx, r.Params.URI, t.kind, text, err)
			})
	}
}

func contents(ctx context.Context, uri, kind, text string, err error) ([]mcp.ResourceContents, error) {
	if sessions.CodeOf(err) == sessions.CodeNotFound || sessions.CodeOf(err) == sessions.CodeInvalidParams {
		code := mcp.RESOURCE_NOT_FOUND
		if inRounds(ctx) { // since 2026-07-28
			code = mcp.INVALID_PARAMS
		}
		return nil, refuse(ctx, code, map[string]any{"uri": uri}, err)
	}
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: kind, Text: text}}, nil
}

// parseResource takes the URI of a session's resource apart.
func parseResource(uri string) (id, part, after string, err error) {
	bad := func() (string, string, string, error) {
		return "", "", "", sessions.Errorf(sessions.CodeNotFound, "there is no resource %.200q", uri).
			Do("use %s, or %sID, %sID%s, %sID%s", sessionsURI, sessionPrefix, sessionPrefix, partEvents, sessionPrefix, partTranscript)
	}
	u, err := url.Parse(uri)
	rest, ok := strings.CutPrefix(uri, sessionPrefix)
	if err != nil || !ok {
		return bad()
	}
	rest, _, _ = strings.Cut(rest, "?")
	id, part, _ = strings.Cut(rest, "/")
	if part != "" {
		part = "/" + part
	}
	after = u.Query().Get("after")
	if sessions.CheckUUID("session_id", id) != nil || part != "" && part != partEvents && part != partTranscript || after != "" && part != partEvents {
		return bad()
	}
	return id, part, after, nil
}

// resourceText reads one resource of a session.
func (s *Server) resourceText(ctx context.Context, uri string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
	defer cancel()
	id, part, after, err := parseResource(uri)
	if err != nil {
		return "", err
	}
	switch part {
	case partEvents:
		r, err := s.api.Read(ctx, s.caller(ctx), sessions.ReadArgs{SessionID: id, After: after, MaxChars: sessions.MaxChars})
		return encoded(r, err)
	case partTranscript:
		return s.transcript(ctx, id)
	}
	found, err := s.session(ctx, id)
	return encoded(found, err)
}

// session is one session as it is now.
func (s *Server) session(ctx context.Context, id string) (sessions.Session, error) {
	r, err := s.api.Wait(ctx, s.caller(ctx), sessions.WaitArgs{SessionIDs: []string{id}, Until: "event", WaitSeconds: new(0)})
	if err != nil {
		return sessions.Session{}, err
	}
	for _, w := range r.Sessions {
		if w.Session.SessionID == id {
			return w.Session, nil
		}
	}
	all, err := s.sessions(ctx) // one without an event
	if err != nil {
		return sessions.Session{}, err
	}
	if i := slices.IndexFunc(all, func(x sessions.Session) bool { return x.SessionID == id }); i >= 0 {
		return all[i], nil
	}
	return sessions.Session{}, sessions.Errorf(sessions.CodeNotFound, "there is no session %s", id).Do("look for it with session_list")
}

// sessions are all of the caller's.
func (s *Server) sessions(ctx context.Context) (all []sessions.Session, err error) {
	a := sessions.ListArgs{All: true}
	for {
		r, err := s.api.List(ctx, s.caller(ctx), a)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Sessions...)
		if r.Cursor == "" || r.Cursor == a.After || len(r.Sessions) == 0 {
			return all, nil
		}
		a.After = r.Cursor
	}
}

func (s *Server) listText(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
	defer cancel()
	all, err := s.sessions(ctx)
	return encoded(sessions.ListResult{Sessions: all}, err)
}

func encoded(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	raw, err := Encode(v)
	return string(raw), err
}

// addSessions names the newest sessions in resources/list: their transcripts are what a person attaches to a prompt.
func (s *Server) addSessions(ctx context.Context, _ any, request *mcp.ListResourcesRequest, result *mcp.ListResourcesResult) {
	if s.api == nil || result == nil || request != nil && request.Params.Cursor != "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, slice, errSlice)
	defer cancel()
	all, err := s.sessions(ctx)
	if err != nil {
		s.log.Debug().Err(err).Msg("resources/list goes without the sessions")
		return
	}
	slices.SortStableFunc(all, func(a, b sessions.Session) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	for i, x := range all {
		if i == shownSessions {
			break
		}
		title := x.Title
		if title == "" {
			title = x.Runner + " in " + clip(x.Cwd, 80)
		}
		result.Resources = append(result.Resources, mcp.Resource{URI: sessionPrefix + x.SessionID + partTranscript, Name: "transcript-" + x.SessionID,
			Title: title, Description: fmt.Sprintf("Transcript of a session of %s, which is %s.", x.Runner, x.State), MIMEType: "text/markdown"})
	}
	if l, ok := server.ClientSessionFromContext(ctx).(interface{ sawResources() }); ok {
		l.sawResources()
	}
}

func schemaText(all []tool) (string, error) {
	type entry struct {
		Arguments *schema `json:"arguments"`
		Result    *schema `json:"result"`
	}
	doc := struct {
		Tools map[string]entry         `json:"tools"`
		Error *schema                  `json:"error"`
		Event *schema                  `json:"event"`
		Codes map[sessions.Code]string `json:"codes"`
	}{map[string]entry{}, resultSchema[sessions.Error](), resultSchema[sessions.Event](), map[sessions.Code]string{}}
	for _, t := range all {
		doc.Tools[t.name] = entry{t.input, t.result()}
	}
	for _, c := range sessions.Codes() {
		doc.Codes[c] = c.Meaning()
	}
	text, err := json.Marshal(doc)
	return string(text), err
}
