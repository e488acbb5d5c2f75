-- What a principal has acknowledged of its sessions, and those with more than that: the inbox costs what is in it, whatever
-- was acknowledged before.
ALTER TABLE sessions ADD COLUMN acked INTEGER NOT NULL DEFAULT 0; -- the last event that was acknowledged
UPDATE sessions SET acked = coalesce((SELECT cursor FROM consumers WHERE name = 'inbox/' || principal || '/' || id), 0);
DELETE FROM consumers WHERE name LIKE 'inbox/%';
CREATE INDEX sessions_inbox ON sessions (principal, n) WHERE last_seq > acked AND state <> 'deleted';
