package journal

import (
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// Command is the row of a command: what callers see of it, and what it asks for.
type Command struct {
	sessions.Command
	Principal       string    `json:"principal,omitempty"` // who sent it
	Position        int64     `json:"position,omitempty"`  // order over all commands; given by InsertCommand
	Text            string    `json:"text,omitempty"`
	Images          []string  `json:"images,omitempty"`
	Overrides       Overrides `json:"overrides,omitzero"`
	WhenBusy        string    `json:"when_busy,omitempty"`
	DeadlineSeconds int       `json:"deadline_seconds,omitempty"`
	Steer           string    `json:"steer,omitempty"` // the command it steers; it owns no turn then
}

// Overrides are selections that a command changes from its turn on; "" keeps what is set.
type Overrides struct {
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Mode   string `json:"mode,omitempty"`
}

const commandColumns = `position, id, principal, generation, state, outcome, reason, turn, text, images, overrides, when_busy,
	deadline, steer, cancel_asked, acked, usage, created, submitted, settled`

func scanCommand(tx *Tx, session string, r *row) Command {
	var c Command
	c.Position, c.Session, c.CommandID, c.Principal, c.Generation = r.int(), session, r.text(), r.text(), tx.generationOf(r)
	c.State, c.Outcome, c.Reason, c.Turn, c.Text = sessions.CommandState(r.text()), r.text(), r.text(), r.text(), r.text()
	r.json(&c.Images)
	r.json(&c.Overrides)
	c.WhenBusy, c.DeadlineSeconds, c.Steer, c.CancelAsked, c.Acked = r.text(), int(r.int()), r.text(), r.bool(), r.bool()
	r.json(&c.Usage)
	c.CreatedAt, c.SubmittedAt, c.SettledAt = r.time(), r.time(), r.time()
	return c
}

// InsertCommand adds a command in the state it names (queued when none) and fills Position and CreatedAt. A command
// inserted as submitted gets its SubmittedAt, and is CodeBusy while another one runs. A used id is CodeKeyConflict.
func (tx *Tx) InsertCommand(c *Command) error {
	if c.State == "" {
		c.State = sessions.CommandQueued
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = tx.now
	}
	if c.State == sessions.CommandSubmitted && c.SubmittedAt.IsZero() {
		c.SubmittedAt = tx.now
	}
	if err := tx.free(c); err != nil {
		return err
	}
	j, err := encodeAll(c.Images, c.Overrides, c.Usage)
	if err != nil {
		return err
	}
	n, err := tx.sessionN(c.Session)
	if err != nil {
		return err
	}
	if n == 0 {
		return notFound("session", c.Session)
	}
	g, err := tx.reference(c.Generation)
	if err != nil {
		return err
	}
	if !tx.alone && c.plain() {
		if c.Position, err = tx.nextPosition(); err != nil {
			return err
		}
		// A used id makes the transaction be repeated, with every update alone.
		err := tx.addCommand(commandRow{position: c.Position, session: n, id: c.CommandID, principal: c.Principal, generation: g, state: c.State,
			text: c.Text, overrides: j[1], busy: c.WhenBusy, deadline: c.DeadlineSeconds, created: nanos(c.CreatedAt), submitted: nanos(c.SubmittedAt)})
		if err != nil {
			return err
		}
		tx.noteCommand(*c)
		tx.Touch(c.Session)
		return nil
	}
	_, err = tx.exec("INSERT INTO commands ("+commandInsert+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		n, c.CommandID, c.Principal, g, c.State, c.Outcome, c.Reason, c.Turn, c.Text, j[0], j[1], c.WhenBusy,
		c.DeadlineSeconds, c.Steer, c.CancelAsked, c.Acked, j[2], c.CreatedAt, c.SubmittedAt, c.SettledAt)
	if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) { // the id: another running command was looked for before
		return sessions.Errorf(sessions.CodeKeyConflict, "command id %s was used before in this session", c.CommandID).Do("take a new one")
	}
	if err != nil {
		return err
	}
	c.Position = tx.c.db.LastInsertRowID()
	tx.j.known.position = c.Position
	tx.noteCommand(*c)
	tx.Touch(c.Session)
	return nil
}

// commandInsert are the columns of a new command in the order of the table.
const commandInsert = `session, id, principal, generation, state, outcome, reason, turn, text, images, overrides, when_busy, deadline,
	steer, cancel_asked, acked, usage, created, submitted, settled`

// plain tells that the columns that commandRow lacks are empty.
func (c *Command) plain() bool {
	return c.Outcome == "" && c.Reason == "" && c.Turn == "" && len(c.Images) == 0 && c.Steer == "" && !c.CancelAsked && !c.Acked && c.Usage == nil &&
		c.SettledAt.IsZero()
}

// nextPosition is that of a new command.
func (tx *Tx) nextPosition() (int64, error) {
	if !tx.writable {
		return 0, errView
	}
	return tx.after(&tx.j.known.position, "SELECT max(position) FROM commands")
}

// after is the number of a new row after the highest, which the writer remembers or reads.
func (tx *Tx) after(highest *int64, read string) (int64, error) {
	if *highest == 0 {
		n, err := tx.number(read)
		if err != nil {
			return 0, err
		}
		*highest = n
	}
	*highest++
	return *highest, nil
}

// free refuses a command that wants to run beside another one.
func (tx *Tx) free(c *Command) error {
	if c.Steer != "" || (c.State != sessions.CommandSubmitted && c.State != sessions.CommandAccepted) {
		return nil
	}
	running, found, err := tx.RunningCommand(c.Session)
	if err != nil || !found || running.CommandID == c.CommandID {
		return err
	}
	return sessions.Errorf(sessions.CodeBusy, "command %s of session %s is running", running.CommandID, c.Session).
		Do("wait for it, cancel it, or send with when_busy queue or steer")
}

// FindCommand returns a command and whether there is one.
func (tx *Tx) FindCommand(session, id string) (Command, bool, error) {
	if tx.writable {
		w, err := tx.knownWork(session)
		if err != nil {
			return Command{}, false, err
		}
		for _, c := range w.open {
			if c.CommandID == id {
				return c, true, nil
			}
		}
	}
	return tx.command(session, "AND id = ?", id)
}

// GetCommand returns a command; CodeNotFound when there is none.
func (tx *Tx) GetCommand(session, id string) (Command, error) {
	c, found, err := tx.FindCommand(session, id)
	if err == nil && !found {
		err = notFound("command", id)
	}
	return c, err
}

// MoveCommand moves a command by the machine and returns its new state; it stamps SubmittedAt and SettledAt, and writes
// what change (which may be nil) alters along. Submitting beside a running command is CodeBusy; a transition that the
// machine does not have is a *sessions.ImpossibleError, and nothing changed.
func (tx *Tx) MoveCommand(session, id string, event sessions.CommandEvent, change func(*Command)) (sessions.CommandState, error) {
	c, err := tx.GetCommand(session, id)
	if err != nil {
		return "", err
	}
	was := c.State
	next, err := sessions.NextCommand(was, event)
	if err != nil {
		return was, tx.impossible(session, err)
	}
	err = tx.putCommand(&c, func(c *Command) {
		if next == sessions.CommandSubmitted {
			c.SubmittedAt = tx.now
		}
		if next.Settled() {
			c.SettledAt = tx.now
		}
		if change != nil {
			change(c)
		}
		c.State = next
	})
	if err != nil {
		return was, err
	}
	return next, nil
}

// UpdateCommand lets change alter a command; its identity and state stay what they are.
func (tx *Tx) UpdateCommand(session, id string, change func(*Command)) (Command, error) {
	c, err := tx.GetCommand(session, id)
	if err != nil {
		return c, err
	}
	state := c.State
	return c, tx.putCommand(&c, func(c *Command) {
		change(c)
		c.State = state
	})
}

func (tx *Tx) putCommand(c *Command, change func(*Command)) error {
	was := *c
	change(c)
	c.Session, c.CommandID, c.Position, c.Principal, c.CreatedAt = was.Session, was.CommandID, was.Position, was.Principal, was.CreatedAt
	if err := tx.free(c); err != nil {
		return err
	}
	j, err := encodeAll(c.Images, c.Overrides, c.Usage)
	if err != nil {
		return err
	}
	g, err := tx.reference(c.Generation)
	if err != nil {
		return err
	}
	tx.Touch(c.Session)
	_, err = tx.exec(`UPDATE commands SET generation=?, state=?, outcome=?, reason=?, turn=?, text=?, images=?, overrides=?, when_busy=?,
		deadline=?, steer=?, cancel_asked=?, acked=?, usage=?, submitted=?, settled=? WHERE position = ?`,
		g, c.State, c.Outcome, c.Reason, c.Turn, c.Text, j[0], j[1], c.WhenBusy, c.DeadlineSeconds, c.Steer, c.CancelAsked,
		c.Acked, j[2], c.SubmittedAt, c.SettledAt, c.Position)
	if err != nil {
		tx.forgetWork(c.Session)
		return err
	}
	tx.noteCommand(*c)
	return nil
}

// RunningCommand returns the command that is submitted or accepted and owns the turn, if there is one.
func (tx *Tx) RunningCommand(session string) (Command, bool, error) {
	if !tx.writable {
		return tx.command(session, "AND steer = '' AND state IN ('submitted', 'accepted')")
	}
	open, err := tx.openOf(session, func(c *Command) bool { return c.Steer == "" && c.State != sessions.CommandQueued })
	if err != nil || len(open) == 0 {
		return Command{}, false, err
	}
	return open[0], true, nil
}

// openOf returns those of a session's open commands that which chooses, oldest first.
func (tx *Tx) openOf(session string, which func(*Command) bool) ([]Command, error) {
	w := &work{}
	var err error
	if tx.writable {
		w, err = tx.knownWork(session)
	} else {
		w.open, err = tx.commands(session, openCommands+" ORDER BY position")
	}
	if err != nil {
		return nil, err
	}
	var list []Command
	for i := range w.open {
		if which(&w.open[i]) {
			list = append(list, w.open[i])
		}
	}
	return list, nil
}

// NextQueued returns the oldest queued command, if there is one.
func (tx *Tx) NextQueued(session string) (Command, bool, error) {
	queued, err := tx.QueuedCommands(session)
	if err != nil || len(queued) == 0 {
		return Command{}, false, err
	}
	return queued[0], true, nil
}

// LastCommand returns the command that settled last, if one did.
func (tx *Tx) LastCommand(session string) (Command, bool, error) {
	return tx.command(session, "AND settled > 0 ORDER BY settled DESC, position DESC LIMIT 1")
}

// openCommands is the condition by which the index finds them, among those of all sessions.
const openCommands = "AND settled = 0"

// OpenCommands returns what is queued, submitted or accepted, steering commands too, oldest first.
func (tx *Tx) OpenCommands(session string) ([]Command, error) {
	return tx.openOf(session, func(*Command) bool { return true })
}

// SubmittedCommands returns what is submitted or accepted, steering commands too, oldest first.
func (tx *Tx) SubmittedCommands(session string) ([]Command, error) {
	return tx.openOf(session, func(c *Command) bool { return c.State != sessions.CommandQueued })
}

// QueuedCommands returns what is queued, oldest first.
func (tx *Tx) QueuedCommands(session string) ([]Command, error) {
	return tx.openOf(session, func(c *Command) bool { return c.State == sessions.CommandQueued })
}

// UnknownCommands returns the commands whose outcome is unknown, oldest first; acked ones only when asked for.
func (tx *Tx) UnknownCommands(session string, acked bool) ([]Command, error) {
	if tx.writable && !acked {
		w, err := tx.knownWork(session)
		if err != nil {
			return nil, err
		}
		return slices.Clone(w.unknown), nil
	}
	return tx.commands(session, unknownCommands, acked)
}

const unknownCommands = "AND state = 'unknown' AND acked <= ? ORDER BY position"

// ListCommands returns up to limit commands of a session in their order, after the position given.
func (tx *Tx) ListCommands(session string, after int64, limit int) ([]Command, error) {
	n, err := tx.sessionN(session)
	if err != nil || n == 0 {
		return nil, err
	}
	return tx.commands(session, "AND position IN ("+positions+") AND position > ? ORDER BY position LIMIT ?", n, n, after, limit)
}

// SettledSince returns the commands of a session that settled after a time, oldest first.
func (tx *Tx) SettledSince(session string, after time.Time) ([]Command, error) {
	return tx.commands(session, "AND settled > 0 AND settled > ? ORDER BY settled, position", after)
}

// positions are those of all commands of a session. It names the session twice.
const positions = `SELECT position FROM commands WHERE session = ? AND settled > 0
	UNION ALL SELECT position FROM commands WHERE session = ? AND settled = 0`

func (tx *Tx) command(session, and string, args ...any) (Command, bool, error) {
	list, err := tx.commands(session, and, args...)
	if err != nil || len(list) == 0 {
		return Command{}, false, err
	}
	return list[0], true, nil
}

// ofSession reads rows of commands that are of one session.
const ofSession = "SELECT " + commandColumns + " FROM commands WHERE session = ? "

// commands are those of a session that also meet a condition.
func (tx *Tx) commands(session, and string, args ...any) ([]Command, error) {
	n, err := tx.sessionN(session)
	if err != nil || n == 0 {
		return nil, err
	}
	var list []Command
	err = tx.query(func(r *row) error {
		list = append(list, scanCommand(tx, session, r))
		return r.err
	}, ofSession+and, append([]any{n}, args...)...)
	return list, err
}
