ALTER TABLE sessions ADD COLUMN spent TEXT NOT NULL DEFAULT ''; -- sessions.Spent or nothing
