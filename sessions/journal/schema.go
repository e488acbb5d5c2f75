package journal

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/batonmcp/baton/sessions"
)

// applicationID marks the file as a Baton journal ("BATN"), so that another program's database is not taken for one.
const applicationID = 0x4241544e

//go:embed migrations/*.sql
var migrationFiles embed.FS

type migration struct{ name, sql string }

// migrations returns the schema's steps in order. Steps are additive: an older row stays readable.
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations") // sorted by name
	if err != nil {
		return nil, err
	}
	out := make([]migration, 0, len(entries))
	for i, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), i+1)
		}
		b, err := migrationFiles.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, migration{name, string(b)})
	}
	return out, nil
}

// migrate brings an open database to the newest schema in one transaction, and tells of it first where there is something
// to bring. A database of a newer Baton is refused.
func (c *conn) migrate(path string, steps []migration, tell func(from, to string)) error {
	have, err := c.number("PRAGMA user_version")
	if err != nil {
		return err
	}
	app, err := c.number("PRAGMA application_id")
	if err != nil {
		return err
	}
	if have > 0 && app != applicationID {
		return sessions.Errorf(sessions.CodeStorageFailed, "%s is a database, but not a Baton journal", path).
			Do("move it away, or name another state directory")
	}
	if have > int64(len(steps)) {
		name, _ := c.text("SELECT value FROM meta WHERE name = 'schema'")
		return sessions.Errorf(sessions.CodeStorageFailed, "journal %s has schema %s of a newer Baton; this one knows schemas up to %s",
			path, name, steps[len(steps)-1].name).Do("use the Baton that wrote it, or a newer one; nothing was changed")
	}
	if have == int64(len(steps)) {
		return nil
	}
	if have > 0 && tell != nil {
		tell(steps[have-1].name, steps[len(steps)-1].name)
	}
	txn, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	for _, s := range steps[have:] {
		if err = c.db.Exec(s.sql); err != nil {
			err = fmt.Errorf("migration %s: %w", s.name, err)
			break
		}
	}
	if err == nil {
		err = c.db.Exec(fmt.Sprintf(`INSERT INTO meta VALUES ('schema', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
			PRAGMA user_version = %d; PRAGMA application_id = %d`,
			sqlite3.Quote(steps[len(steps)-1].name), len(steps), applicationID))
	}
	txn.End(&err)
	return err
}
