package journal

// Cursor returns how far a consumer of the node's events got (0: not begun). The numbers are those of ReadNode, except
// under a name with a slash in it: that is a counter of whoever owns the part before it.
func (tx *Tx) Cursor(consumer string) (int64, error) {
	return tx.number("SELECT cursor FROM consumers WHERE name = ?", consumer)
}

// SetCursor records how far a consumer got. It never goes back.
func (tx *Tx) SetCursor(consumer string, cursor int64) error {
	_, err := tx.exec(`INSERT INTO consumers VALUES (?,?,?) ON CONFLICT (name) DO UPDATE
		SET cursor = excluded.cursor, updated = excluded.updated WHERE excluded.cursor > consumers.cursor`, consumer, cursor, tx.now)
	return err
}
