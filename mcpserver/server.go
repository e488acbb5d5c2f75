package mcpserver

import (
	"context"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"
)

// Options of a Server. The zero value of each is legal.
type Options struct {
	// Caller makes every call. An empty Principal is sessions.DefaultPrincipal; an empty Client is what the client calls
	// itself.
	Caller sessions.Caller
	// Version is reported to clients; "" is "dev".
	Version string
	// Compat is CompatCodex for the tools of codex mcp-server in place of Baton's own; "": Baton's own.
	Compat string
	// Elicit asks the user of a client that can do so what an agent wants to know, while a call waits for the agent.
	Elicit bool
	// Logger takes what happens to connections, never what they carry; its writer must be safe for concurrent use. nil:
	// nothing is logged.
	Logger *zerolog.Logger
}

// Server offers a sessions.API to MCP clients.
type Server struct {
	api     sessions.API
	who     sessions.Caller
	log     zerolog.Logger
	mcp     *server.MCPServer
	maxLine int
	elicit  bool
	fixed   []string // the resources that never change, by URI
	peers   peers
}

// instructions reach the assistant with the first message; hosts cut them at 2 KB.
const instructions = `Baton runs the coding agents of this machine (Codex, Cursor, any ACP agent) as sessions that outlive this conversation, and reports truthfully what became of every command.

The loop:
1. runner_list: which agents are installed and logged in, with their models.
2. session_create {runner, cwd}: a session; its model and sandbox are confirmed before it is idle.
3. session_send {session_id, text, command_id}: starts a turn and returns at once.
4. session_wait {session_ids, after}: returns when a turn ends or the agent asks, with the final text and a cursor. timed_out: call it again with that cursor as after.
5. needs_input: read requests, then session_respond {session_id, request_id, decision | option_id | answers}, and wait again.
6. session_read for details; session_cancel to interrupt a turn; session_close at the end; session_resume to go on later.

Rules:
- Every call returns within seconds; the work goes on without you. A wait that ends early says nothing about the work.
- Not sure whether a call arrived? Repeat it with the same command_id, key or session_id: it is never done twice. A new id means new work.
- A command in state unknown may have run. It is never repeated by itself: look with session_read, then decide with your user.
- approve allows one operation. Do not approve what your user has not allowed.
- An error says what was asked, what is so and what to do (error.code, message, action).
Several sessions run side by side: start them all, then session_wait with all their ids.`

// codexInstructions are those of the compatibility profile.
const codexInstructions = `Runs Codex as a coding agent. codex starts a thread, codex-reply continues it by its threadId. Threads outlive this conversation and every process. Each call returns within seconds: when the turn still runs, call codex-reply with the threadId and an empty prompt, again and again, until it has ended. A repeated call under the same id of yours is never done twice.`

// insideInstructions are those of a server without an API.
const insideInstructions = `This is a Baton server inside one of Baton's own sessions. It offers no tools here: an agent must not steer itself or its siblings.`

// New makes a server. Without an API it offers no tools, for a client that must not have any. It panics when the tool
// table cannot be encoded, which a test rules out.
func New(api sessions.API, o Options) *Server {
	s := &Server{api: api, who: o.Caller, log: zerolog.Nop(), maxLine: MaxLine, elicit: o.Elicit, fixed: []string{schemaURI}}
	if s.who.Principal == "" {
		s.who.Principal = sessions.DefaultPrincipal
	}
	if o.Logger != nil {
		s.log = *o.Logger
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	all, teach := tools(), instructions
	if o.Compat == CompatCodex {
		all, teach = codexTools(), codexInstructions
	}
	if api == nil {
		all, teach = nil, insideInstructions
	}
	hooks := new(server.Hooks)
	hooks.AddAfterListResources(s.addSessions)
	s.mcp = server.NewMCPServer("baton", o.Version, server.WithTitle("Baton"), server.WithToolCapabilities(false), server.WithHooks(hooks),
		server.WithResourceCapabilities(api != nil, api != nil), server.WithPromptCapabilities(false), server.WithInstructions(teach))
	if api != nil {
		s.addPrompts()
	}
	for i := range all {
		d, err := all[i].describe()
		if err != nil {
			panic(err)
		}
		s.mcp.AddTool(d, s.handle(&all[i]))
	}
	s.addResources(all)
	return s
}

// caller is who makes a call, with the client's own name for itself.
func (s *Server) caller(ctx context.Context) sessions.Caller {
	who := s.who
	if c, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok && who.Client == "" {
		who.Client = c.GetClientInfo().Name
		if v := c.GetClientInfo().Version; v != "" {
			who.Client += " " + v
		}
	}
	return who
}
