-- What follows from a session or from a life of its agent names it by its number, and what moves with every change of one has
-- rows of a few bytes: the rows and indexes of many sessions at work share pages, and a commit of theirs writes few.
-- None of it takes memory for what is in the tables, as an index of rows that are there already would, or a statement for which
-- SQLite keeps a copy of each page: that is why rows are inserted OR FAIL, and tables emptied before they are dropped.

CREATE TABLE heads (
  session  INTEGER PRIMARY KEY, -- sessions.n
  last_seq INTEGER DEFAULT 0,
  updated  INTEGER DEFAULT 0
);
INSERT OR FAIL INTO heads SELECT n, last_seq, updated FROM sessions;
ALTER TABLE sessions DROP COLUMN last_seq;
ALTER TABLE sessions DROP COLUMN updated;

ALTER TABLE generations RENAME TO old_generations;
DROP INDEX generations_live;
CREATE TABLE generations (
  number         INTEGER PRIMARY KEY AUTOINCREMENT, -- over all sessions, never used twice
  id             TEXT NOT NULL UNIQUE,
  session        TEXT NOT NULL,
  n              INTEGER NOT NULL, -- 1 for the first of the session
  cwd            TEXT NOT NULL,
  executable     TEXT NOT NULL,
  argv           TEXT NOT NULL, -- []string
  version        TEXT NOT NULL,
  profile        TEXT NOT NULL,
  account_digest TEXT NOT NULL,
  policy_digest  TEXT NOT NULL,
  env_digest     TEXT NOT NULL,
  rung           TEXT NOT NULL,
  record         TEXT NOT NULL, -- the containment's own durable identity
  socket         TEXT NOT NULL,
  spill          TEXT NOT NULL,
  native_id      TEXT NOT NULL,
  started        INTEGER NOT NULL,
  ended          INTEGER NOT NULL,
  verdict        TEXT NOT NULL,
  proof          TEXT NOT NULL,
  UNIQUE (session, n)
);
CREATE UNIQUE INDEX generations_live ON generations (session) WHERE ended = 0;
INSERT OR FAIL INTO generations (id, session, n, cwd, executable, argv, version, profile, account_digest, policy_digest, env_digest, rung,
    record, socket, spill, native_id, started, ended, verdict, proof)
  SELECT id, session, n, cwd, executable, argv, version, profile, account_digest, policy_digest, env_digest, rung,
    record, socket, spill, native_id, started, ended, verdict, proof FROM old_generations ORDER BY rowid;
CREATE TABLE progress (
  generation INTEGER PRIMARY KEY, -- generations.number
  last_frame INTEGER DEFAULT 0,
  last_input INTEGER DEFAULT 0
);
INSERT OR FAIL INTO progress SELECT g.number, o.last_frame, o.last_input FROM generations g CROSS JOIN old_generations o ON o.id = g.id;
DELETE FROM old_generations;
DROP TABLE old_generations;

-- A generation that is not in the journal stays the text that it was named by.
ALTER TABLE commands RENAME TO old_commands;
DROP INDEX commands_running;
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
  UNIQUE (session, id)
);
CREATE UNIQUE INDEX commands_running ON commands (session) WHERE steer = '' AND state IN ('submitted', 'accepted');
CREATE INDEX commands_ends ON commands (session, settled); -- open ones have 0, and come first
CREATE INDEX commands_unknown ON commands (session, position) WHERE state = 'unknown';
INSERT OR FAIL INTO commands
  SELECT position, coalesce((SELECT n FROM sessions s WHERE s.id = c.session), c.session), id, principal,
    coalesce((SELECT number FROM generations g WHERE g.id = c.generation), c.generation), state, outcome, reason, turn, text, images, overrides,
    when_busy, deadline, steer, cancel_asked, acked, usage, created, submitted, settled FROM old_commands c ORDER BY position;
DELETE FROM old_commands;
DROP TABLE old_commands;

ALTER TABLE inputs RENAME TO old_inputs;
CREATE TABLE inputs (
  generation INTEGER NOT NULL, -- generations.number
  n          INTEGER NOT NULL, -- from 1 per generation, strictly increasing
  kind       TEXT NOT NULL,
  ref        TEXT NOT NULL, -- command or request id
  payload    TEXT NOT NULL,
  state      TEXT NOT NULL,
  detail     TEXT NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL,
  PRIMARY KEY (generation, n)
);
INSERT OR FAIL INTO inputs
  SELECT coalesce((SELECT number FROM generations g WHERE g.id = i.generation), i.generation), n, kind, ref, payload, state, detail,
    created, updated FROM old_inputs i ORDER BY rowid;
DELETE FROM old_inputs;
DROP TABLE old_inputs;

ALTER TABLE events RENAME TO old_events;
CREATE TABLE events (
  id         INTEGER PRIMARY KEY, -- the node-wide sequence, never used twice: last_event in meta is where it was when some were removed
  session    INTEGER NOT NULL, -- sessions.n
  seq        INTEGER NOT NULL, -- from 1 per session
  generation NOT NULL, -- generations.number
  kind       TEXT NOT NULL,
  command    TEXT NOT NULL,
  at         INTEGER NOT NULL,
  body       TEXT NOT NULL -- sessions.Event without what the other columns hold
);
CREATE UNIQUE INDEX events_session ON events (session, seq);
-- Finds the texts of one command among the events of a long session.
CREATE INDEX events_words ON events (session, command, seq) WHERE kind = 'text';
INSERT OR FAIL INTO events
  SELECT id, coalesce((SELECT n FROM sessions s WHERE s.id = e.session), e.session), seq,
    coalesce((SELECT number FROM generations g WHERE g.id = e.generation), e.generation), kind, command, at, body FROM old_events e ORDER BY id;
INSERT INTO meta SELECT 'last_event', seq FROM sqlite_sequence WHERE name = 'old_events';
DELETE FROM old_events;
DROP TABLE old_events;

-- Operations are found by their key alone.
ALTER TABLE operations RENAME TO old_operations;
DROP INDEX operations_scope;
CREATE TABLE operations (
  principal  TEXT NOT NULL,
  key        TEXT NOT NULL,
  verb       TEXT NOT NULL,
  scope      TEXT NOT NULL, -- the session it is about
  meaning    TEXT NOT NULL, -- digest of what was asked
  state      TEXT NOT NULL,
  result     TEXT NOT NULL,
  lease_term INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) WITHOUT ROWID;
INSERT OR FAIL INTO operations SELECT * FROM old_operations ORDER BY rowid;
DELETE FROM old_operations;
DROP TABLE old_operations;
