package journal

import (
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Session is the row of a session. What sessions.Session has beyond it is derived (see SessionView).
type Session struct {
	N           int64                 `json:"n,omitempty"` // order of creation over all sessions; given by InsertSession
	ID          string                `json:"id,omitempty"`
	Principal   string                `json:"principal,omitempty"`
	Runner      string                `json:"runner,omitempty"`
	Cwd         string                `json:"cwd,omitempty"`
	Title       string                `json:"title,omitempty"`
	State       sessions.SessionState `json:"state,omitempty"`      // moved by MoveSession alone
	Generation  string                `json:"generation,omitempty"` // the live or last one
	NativeID    string                `json:"native_id,omitempty"`
	HadTurn     bool                  `json:"had_turn,omitempty"` // NativeID ever ran a turn
	Asked       sessions.Selection    `json:"asked,omitzero"`
	Settings    Settings              `json:"settings,omitzero"`
	Evidence    sessions.Evidence     `json:"evidence,omitzero"`
	Capability  sessions.Capabilities `json:"capability"`
	Lease       string                `json:"lease,omitempty"`
	LeaseTerm   int64                 `json:"lease_term,omitempty"`
	WorkspaceID string                `json:"workspace_id,omitempty"`
	NodeID      string                `json:"node_id,omitempty"` // "": local
	Origin      string                `json:"origin,omitempty"`  // "": baton; adopted
	Containment sessions.Containment  `json:"containment,omitzero"`
	Error       *sessions.Error       `json:"error,omitempty"`
	Usage       *sessions.Usage       `json:"usage,omitempty"`
	Spent       *sessions.Spent       `json:"spent,omitempty"`
	FirstSeq    int64                 `json:"first_seq,omitempty"` // the oldest event that is kept; given
	LastSeq     int64                 `json:"last_seq,omitempty"`  // moved by AppendEvents alone
	CreatedAt   time.Time             `json:"created_at,omitzero"`
	UpdatedAt   time.Time             `json:"updated_at,omitzero"`

	unread bool // it has events that its principal has not acknowledged
}

// Settings is what create asked for beside the selection, without its secrets: of the environment and of MCP servers
// only names are kept, and a resume has to be given them again.
type Settings struct {
	AutoAnswer    string         `json:"auto_answer,omitempty"`
	WritableRoots []string       `json:"writable_roots,omitempty"`
	EnvNames      []string       `json:"env_names,omitempty"`
	EnvUnset      []string       `json:"env_unset,omitempty"`
	MCPServers    []string       `json:"mcp_servers,omitempty"` // names
	RunnerOptions map[string]any `json:"runner_options,omitempty"`
	Folders       []string       `json:"folders,omitempty"` // that whoever made the session was bound to
}

// SessionFilter chooses sessions; an empty field chooses all.
type SessionFilter struct {
	Principal string
	Cwd       string
	Runner    string
	State     sessions.SessionState
	All       bool // closed and failed ones too, when State is empty; deleted ones never
	Newest    bool // newest first
}

// What moves with every change of a session has a row of its own. Where that is missing, or its page is damaged, the events
// tell both: the last one is there or was cut, and then first_seq follows it.
const (
	lastSeqByEvents = "max(first_seq - 1, coalesce((SELECT max(seq) FROM events WHERE session = n), 0))"
	updatedByEvents = "coalesce((SELECT at FROM events WHERE session = n ORDER BY seq DESC LIMIT 1), created)"
	lastSeqOf       = "coalesce((SELECT last_seq FROM heads WHERE session = n), " + lastSeqByEvents + ")"
	updatedOf       = "coalesce((SELECT updated FROM heads WHERE session = n), " + updatedByEvents + ")"
)

const sessionRow = `n, id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked, settings, evidence,
	capability, lease, lease_term, workspace_id, node_id, origin, containment, error, usage, spent, first_seq, `

const (
	sessionColumns   = sessionRow + lastSeqOf + ", created, " + updatedOf + ", unread"
	sessionsByEvents = sessionRow + lastSeqByEvents + ", created, " + updatedByEvents + ", unread"
)

// sessionSources are the ways to read a session, each for where damage is in the way of the one before.
var sessionSources = []struct{ columns, by, lastSeq, byID string }{
	{sessionColumns, "", lastSeqOf, "SELECT " + sessionColumns + " FROM sessions WHERE id = ?"},
	{sessionsByEvents, "", lastSeqByEvents, "SELECT " + sessionsByEvents + " FROM sessions WHERE id = ?"},
	{sessionColumns, "NOT INDEXED", lastSeqOf, "SELECT " + sessionColumns + " FROM sessions NOT INDEXED WHERE id = ?"},
	{sessionsByEvents, "NOT INDEXED", lastSeqByEvents, "SELECT " + sessionsByEvents + " FROM sessions NOT INDEXED WHERE id = ?"},
}

func scanSession(r *row) Session {
	s := Session{N: r.int(), ID: r.text(), Principal: r.text(), Runner: r.text(), Cwd: r.text(), Title: r.text(),
		State: sessions.SessionState(r.text()), Generation: r.text(), NativeID: r.text(), HadTurn: r.bool()}
	r.json(&s.Asked)
	r.json(&s.Settings)
	r.json(&s.Evidence)
	r.json(&s.Capability)
	s.Lease, s.LeaseTerm, s.WorkspaceID, s.NodeID, s.Origin = r.text(), r.int(), r.text(), r.text(), r.text()
	r.json(&s.Containment)
	r.json(&s.Error)
	r.json(&s.Usage)
	r.json(&s.Spent)
	s.FirstSeq, s.LastSeq, s.CreatedAt, s.UpdatedAt, s.unread = r.int(), r.int(), r.time(), r.time(), r.bool()
	return s
}

// InsertSession adds a session in the state it names (reserved when none). It fills N, the times and the defaults. An
// id that was ever used, by whomever, is CodeKeyConflict.
func (tx *Tx) InsertSession(s *Session) error {
	if s.State == "" {
		s.State = sessions.SessionReserved
	}
	if s.NodeID == "" {
		s.NodeID = "local"
	}
	if s.Origin == "" {
		s.Origin = "baton"
	}
	if s.CreatedAt.IsZero() {
		s.CreatedAt = tx.now
	}
	s.UpdatedAt, s.FirstSeq, s.LastSeq = tx.now, 1, 0
	if _, taken, err := tx.FindSession(s.ID); err != nil {
		return err
	} else if taken {
		return sessions.Errorf(sessions.CodeKeyConflict, "session id %s was used before", s.ID).Do("leave session_id out, or take a new one")
	}
	j, err := encodeAll(s.Asked, s.Settings, s.Evidence, s.Capability, s.Containment, s.Error, s.Usage, s.Spent)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO sessions (id, principal, runner, cwd, title, state, generation, native_id, had_turn, asked,
		settings, evidence, capability, lease, lease_term, workspace_id, node_id, origin, containment, error, usage, spent,
		first_seq, created) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		s.ID, s.Principal, s.Runner, s.Cwd, s.Title, s.State, s.Generation, s.NativeID, s.HadTurn, j[0], j[1], j[2], j[3],
		s.Lease, s.LeaseTerm, s.WorkspaceID, s.NodeID, s.Origin, j[4], j[5], j[6], j[7], s.FirstSeq, s.CreatedAt)
	if err != nil {
		return err
	}
	s.N = tx.c.db.LastInsertRowID()
	tx.Touch(s.ID)
	return tx.putHead(s)
}

// FindSession returns a session, deleted ones too, and whether there is one.
func (tx *Tx) FindSession(id string) (s Session, found bool, err error) {
	if !tx.writable {
		return tx.readSession(id)
	}
	k, err := tx.knownSession(id)
	if k == nil || err != nil {
		return s, false, err
	}
	return *k, true, nil
}

func (tx *Tx) readSession(id string) (s Session, found bool, err error) {
	for _, from := range sessionSources {
		found, err = tx.one(func(r *row) { s = scanSession(r) }, from.byID, id)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	return s, found, err
}

// GetSession returns a session of the principal; another's, a deleted and a missing one alike are CodeNotFound. An
// empty principal sees all (the host's own work).
func (tx *Tx) GetSession(principal, id string) (Session, error) {
	s, found, err := tx.FindSession(id)
	if err != nil {
		return Session{}, err
	}
	if !found || s.State == sessions.SessionDeleted || (principal != "" && s.Principal != principal) {
		return Session{}, notFound("session", id)
	}
	return s, nil
}

// SessionsOfNative returns the sessions whose conversation has this native id, of whatever runner, deleted ones apart. An
// agent's ids are its own: another one may have made the same.
func (tx *Tx) SessionsOfNative(native string) (list []Session, err error) {
	return tx.sessions("WHERE native_id = ? AND native_id <> '' AND state <> 'deleted' ORDER BY n", native)
}

// NativeIDs are the native ids of all sessions but deleted ones, with the runners that they are of.
func (tx *Tx) NativeIDs() (map[string][]string, error) {
	ids := map[string][]string{}
	err := tx.query(func(r *row) error {
		native := r.text()
		ids[native] = append(ids[native], r.text())
		return nil
	}, "SELECT native_id, runner FROM sessions WHERE native_id <> '' AND state <> 'deleted'")
	return ids, err
}

// UpdateSession lets change alter a session. Its identity, state and event numbers stay what they are.
func (tx *Tx) UpdateSession(id string, change func(*Session)) (Session, error) {
	s, found, err := tx.FindSession(id)
	if err != nil {
		return Session{}, err
	}
	if !found {
		return Session{}, notFound("session", id)
	}
	return s, tx.putSession(&s, s.State, change)
}

// MoveSession moves a session by the machine and returns its new state; changes are written along. A transition that
// the machine does not have is a *sessions.ImpossibleError, and nothing changed.
func (tx *Tx) MoveSession(id string, event sessions.SessionEvent, changes ...func(*Session)) (sessions.SessionState, error) {
	s, found, err := tx.FindSession(id)
	if err != nil {
		return "", err
	}
	if !found {
		return "", notFound("session", id)
	}
	next, err := sessions.NextSession(s.State, event)
	if err != nil {
		return s.State, tx.impossible(id, err)
	}
	return next, tx.putSession(&s, next, changes...)
}

// putState writes the state alone: the other columns hold JSON, some of it long.
func (tx *Tx) putState(s *Session, state sessions.SessionState) error {
	s.State, s.UpdatedAt = state, tx.now
	tx.Touch(s.ID)
	tx.forgetSession(s.ID)
	_, err := tx.exec("UPDATE sessions SET state = ? WHERE n = ?", state, s.N)
	if err == nil {
		err = tx.putHead(s)
	}
	if err == nil {
		remember(&tx.j.known.sessions, s.ID, *s)
	}
	return err
}

func (tx *Tx) putSession(s *Session, state sessions.SessionState, changes ...func(*Session)) error {
	if len(changes) == 0 {
		return tx.putState(s, state)
	}
	was := *s
	for _, change := range changes {
		change(s)
	}
	s.N, s.ID, s.Principal, s.State, s.CreatedAt = was.N, was.ID, was.Principal, state, was.CreatedAt
	s.FirstSeq, s.LastSeq, s.UpdatedAt, s.unread = was.FirstSeq, was.LastSeq, tx.now, was.unread
	j, err := encodeAll(s.Asked, s.Settings, s.Evidence, s.Capability, s.Containment, s.Error, s.Usage, s.Spent)
	if err != nil {
		return err
	}
	tx.Touch(s.ID)
	tx.forgetSession(s.ID)
	_, err = tx.exec(`UPDATE sessions SET runner=?, cwd=?, title=?, state=?, generation=?, native_id=?, had_turn=?, asked=?, settings=?,
		evidence=?, capability=?, lease=?, lease_term=?, workspace_id=?, node_id=?, origin=?, containment=?, error=?, usage=?,
		spent=? WHERE n = ?`,
		s.Runner, s.Cwd, s.Title, s.State, s.Generation, s.NativeID, s.HadTurn, j[0], j[1], j[2], j[3], s.Lease, s.LeaseTerm,
		s.WorkspaceID, s.NodeID, s.Origin, j[4], j[5], j[6], j[7], s.N)
	if err == nil {
		err = tx.putHead(s)
	}
	if err == nil {
		remember(&tx.j.known.sessions, s.ID, *s)
	}
	return err
}

// liveSessions repeats the condition of the partial index, so that it is used.
const liveSessions = "WHERE state <> 'closed' AND state <> 'failed' AND state <> 'deleted'"

// LiveSessions returns, oldest first, every session that a starting host must look at: those that are reserved or have,
// or are about to have, a bridge.
func (tx *Tx) LiveSessions() ([]Session, error) {
	return tx.sessions(liveSessions + " ORDER BY n")
}

// ListSessions returns up to limit sessions in the order of their creation, after the one with N after (0: from the
// start), and whether there are more.
func (tx *Tx) ListSessions(f SessionFilter, after int64, limit int) ([]Session, bool, error) {
	where, order := "WHERE n > ?", " ORDER BY n"
	if f.Newest {
		order = " ORDER BY n DESC"
		if after > 0 {
			where = "WHERE n < ?"
		}
	}
	args := []any{after}
	for _, c := range []struct{ column, value string }{
		{"principal", f.Principal}, {"cwd", f.Cwd}, {"runner", f.Runner}, {"state", string(f.State)},
	} {
		if c.value != "" {
			where += " AND " + c.column + " = ?"
			args = append(args, c.value)
		}
	}
	switch {
	case f.State != "":
	case f.All:
		where += " AND state <> 'deleted'"
	default:
		where += " AND state NOT IN ('closed', 'failed', 'deleted')"
	}
	list, err := tx.sessions(where+order+" LIMIT ?", append(args, limit+1)...)
	if err != nil || len(list) <= limit {
		return list, false, err
	}
	return list[:limit], true, nil
}

func (tx *Tx) sessions(where string, args ...any) (list []Session, err error) {
	for _, from := range sessionSources {
		list = nil
		err = tx.query(func(r *row) error {
			list = append(list, scanSession(r))
			return nil
		}, "SELECT "+from.columns+" FROM sessions "+from.by+" "+where, args...)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	return list, err
}
