-- Times are nanoseconds since 1970 (0: never). JSON columns hold the encoding of the Go type named beside them.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
  n            INTEGER PRIMARY KEY, -- order of creation; a deleted session keeps its row
  id           TEXT NOT NULL UNIQUE,
  principal    TEXT NOT NULL,
  runner       TEXT NOT NULL,
  cwd          TEXT NOT NULL,
  title        TEXT NOT NULL,
  state        TEXT NOT NULL,
  generation   TEXT NOT NULL,
  native_id    TEXT NOT NULL,
  had_turn     INTEGER NOT NULL,
  asked        TEXT NOT NULL, -- sessions.Selection
  settings     TEXT NOT NULL, -- Settings
  evidence     TEXT NOT NULL, -- sessions.Evidence
  capability   TEXT NOT NULL, -- sessions.Capabilities
  lease        TEXT NOT NULL,
  lease_term   INTEGER NOT NULL,
  workspace_id TEXT NOT NULL,
  node_id      TEXT NOT NULL,
  origin       TEXT NOT NULL,
  containment  TEXT NOT NULL, -- sessions.Containment
  error        TEXT NOT NULL, -- sessions.Error or nothing
  usage        TEXT NOT NULL, -- sessions.Usage or nothing
  first_seq    INTEGER NOT NULL, -- the oldest event that retention kept
  last_seq     INTEGER NOT NULL,
  purged       INTEGER NOT NULL DEFAULT 0, -- events up to this one are gone from the file
  wiped        INTEGER NOT NULL DEFAULT 0, -- a deleted session has no other rows left
  created      INTEGER NOT NULL,
  updated      INTEGER NOT NULL
);
CREATE INDEX sessions_principal ON sessions (principal, n);
-- What a starting host looks at: bounded by live sessions, not by history.
CREATE INDEX sessions_live ON sessions (n) WHERE state NOT IN ('closed', 'failed', 'deleted');
CREATE INDEX sessions_cut ON sessions (n) WHERE first_seq > purged + 1;
CREATE INDEX sessions_deleted ON sessions (n) WHERE state = 'deleted' AND wiped = 0;

CREATE TABLE generations (
  id             TEXT PRIMARY KEY,
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
  last_frame     INTEGER NOT NULL,
  last_input     INTEGER NOT NULL,
  started        INTEGER NOT NULL,
  ended          INTEGER NOT NULL,
  verdict        TEXT NOT NULL,
  proof          TEXT NOT NULL,
  UNIQUE (session, n)
);
CREATE UNIQUE INDEX generations_live ON generations (session) WHERE ended = 0;

CREATE TABLE commands (
  position     INTEGER PRIMARY KEY,
  session      TEXT NOT NULL,
  id           TEXT NOT NULL,
  principal    TEXT NOT NULL,
  generation   TEXT NOT NULL,
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
CREATE INDEX commands_open ON commands (session, position) WHERE state IN ('queued', 'submitted', 'accepted');
CREATE INDEX commands_unknown ON commands (session, position) WHERE state = 'unknown';
CREATE INDEX commands_settled ON commands (session, settled, position) WHERE settled > 0;

CREATE TABLE requests (
  n           INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  session     TEXT NOT NULL,
  generation  TEXT NOT NULL,
  command     TEXT NOT NULL,
  handle      TEXT NOT NULL,
  kind        TEXT NOT NULL,
  state       TEXT NOT NULL,
  body        TEXT NOT NULL, -- sessions.Request without what the other columns hold
  answer      TEXT NOT NULL, -- sessions.Answer or nothing
  answered_by TEXT NOT NULL,
  reason      TEXT NOT NULL,
  asked       INTEGER NOT NULL,
  answered    INTEGER NOT NULL,
  settled     INTEGER NOT NULL,
  UNIQUE (generation, handle)
);
CREATE INDEX requests_session ON requests (session, n);
CREATE INDEX requests_open ON requests (session, n) WHERE state IN ('pending', 'answering');

CREATE TABLE inputs (
  generation TEXT NOT NULL,
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
CREATE INDEX inputs_ref ON inputs (ref, generation, n);

CREATE TABLE events (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- the node-wide sequence, never used twice
  session    TEXT NOT NULL,
  seq        INTEGER NOT NULL, -- from 1 per session
  generation TEXT NOT NULL,
  kind       TEXT NOT NULL,
  command    TEXT NOT NULL,
  at         INTEGER NOT NULL,
  body       TEXT NOT NULL -- sessions.Event without what the other columns hold
);
CREATE UNIQUE INDEX events_seq ON events (session, seq);
-- Finds the texts of one command among the events of a long session.
CREATE INDEX events_text ON events (session, command, seq) WHERE kind = 'text';

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
);
CREATE INDEX operations_scope ON operations (scope, created);

CREATE TABLE fences (
  principal TEXT NOT NULL,
  kind      TEXT NOT NULL,
  scope     TEXT NOT NULL,
  id        TEXT NOT NULL,
  created   INTEGER NOT NULL,
  PRIMARY KEY (principal, kind, scope, id)
) WITHOUT ROWID;

CREATE TABLE consumers (
  name    TEXT PRIMARY KEY,
  cursor  INTEGER NOT NULL,
  updated INTEGER NOT NULL
) WITHOUT ROWID;
