-- What each change of a session at work costs is the pages that it touches: fewer indexes, and none whose condition moves
-- with every event. A condition with three values in a list would have SQLite build a table for each row that it tests.

-- Events that the principal has not acknowledged: set with the first of them, so that the next leave the index alone.
ALTER TABLE sessions ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET unread = 1 WHERE last_seq > acked AND state <> 'deleted';
DROP INDEX sessions_inbox;
CREATE INDEX sessions_inbox ON sessions (principal, n) WHERE unread = 1;
DROP INDEX sessions_live;
CREATE INDEX sessions_live ON sessions (n) WHERE state <> 'closed' AND state <> 'failed' AND state <> 'deleted';

-- A command has a time of settlement exactly when it is no longer queued, submitted or accepted.
DROP INDEX commands_open;
CREATE INDEX commands_open ON commands (session, position) WHERE settled = 0;

-- Inputs are found by their generation, which has few.
DROP INDEX inputs_ref;
