-- What is added goes to the end of its table and of as many indexes as can be: rows of many sessions at work then share pages,
-- where an index by session or generation has a page of its own for nearly each of them. As before, none of it takes memory for
-- what is in the tables.

-- Inputs are found from the newest one of their generation on.
ALTER TABLE inputs RENAME TO old_inputs;
CREATE TABLE inputs (
  row        INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL, -- generations.number
  n          INTEGER NOT NULL, -- from 1 per generation, strictly increasing
  before     INTEGER NOT NULL, -- the row of the generation's input before this one, 0: none
  kind       TEXT NOT NULL,
  ref        TEXT NOT NULL, -- command or request id
  payload    TEXT NOT NULL,
  state      TEXT NOT NULL,
  detail     TEXT NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL
);
INSERT OR FAIL INTO inputs
  SELECT rowid, generation, n,
    coalesce((SELECT b.rowid FROM old_inputs b WHERE b.generation = i.generation AND b.n < i.n ORDER BY b.n DESC LIMIT 1), 0),
    kind, ref, payload, state, detail, created, updated FROM old_inputs i ORDER BY rowid;
ALTER TABLE progress ADD COLUMN last_row INTEGER DEFAULT 0; -- inputs.row of last_input
UPDATE OR FAIL progress SET last_row =
  coalesce((SELECT rowid FROM old_inputs i WHERE i.generation = progress.generation ORDER BY n DESC LIMIT 1), 0);
DELETE FROM old_inputs;
DROP TABLE old_inputs;

-- Most ids of commands begin with the time when they were made. Those that are open are few among all sessions; the others are
-- found by their session.
ALTER TABLE commands RENAME TO old_commands;
DROP INDEX commands_running;
DROP INDEX commands_ends;
DROP INDEX commands_unknown;
CREATE TABLE commands (
  position     INTEGER PRIMARY KEY,
  session      INTEGER NOT NULL, -- sessions.n
  id           TEXT NOT NULL,
  principal    TEXT NOT NULL,
  generation   NOT NULL, -- generations.number
  state        TEXT NOT NULL,
  outcome      TEXT NOT NULL,
  reason       TEXT NOT NULL,
  turn         TEXT NOT NULL,
  text         TEXT NOT NULL,
  images       TEXT NOT NULL, -- []string
  overrides    TEXT NOT NULL, -- Overrides
  when_busy    TEXT NOT NULL,
  deadline     INTEGER NOT NULL, -- seconds, 0: none
  steer        TEXT NOT NULL, -- the command it steers; it owns no turn then
  cancel_asked INTEGER NOT NULL,
  acked        INTEGER NOT NULL,
  usage        TEXT NOT NULL, -- sessions.Usage or nothing
  created      INTEGER NOT NULL,
  submitted    INTEGER NOT NULL,
  settled      INTEGER NOT NULL,
  UNIQUE (id, session)
);
CREATE UNIQUE INDEX commands_running ON commands (session) WHERE steer = '' AND state IN ('submitted', 'accepted');
CREATE INDEX commands_open ON commands (position, session) WHERE settled = 0;
CREATE INDEX commands_settled ON commands (session, settled) WHERE settled > 0;
CREATE INDEX commands_unknown ON commands (session, position) WHERE state = 'unknown';
INSERT OR FAIL INTO commands SELECT * FROM old_commands ORDER BY position;
DELETE FROM old_commands;
DROP TABLE old_commands;
