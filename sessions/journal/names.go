package journal

import (
	"github.com/ncruces/go-sqlite3"
)

// names is what a transaction looked up last: most rows that it reads after each other are of one session and generation.
type names struct {
	session    string
	n          int64 // the session's
	generation string
	number     int64          // the generation's
	unreadable map[int64]bool // generations that damage has taken: what names them is not to be lost with them
}

// known is what the writer remembers; nothing in a view, which runs on another goroutine.
func (tx *Tx) known() *known {
	if tx.writable {
		return &tx.j.known
	}
	return &known{}
}

// sessionN is the number by which other rows name a session; 0 when there is none of that id.
func (tx *Tx) sessionN(id string) (int64, error) {
	if tx.names.n != 0 && tx.names.session == id {
		return tx.names.n, tx.usable()
	}
	var n int64
	var err error
	if k := tx.known().sessions[id]; k != nil {
		n, err = k.N, tx.usable()
	} else {
		n, err = tx.numberOf("n", "sessions", id)
	}
	if err == nil && n != 0 {
		tx.names.session, tx.names.n = id, n
	}
	return n, err
}

// numberOf finds a row's number by its id; where the index is damaged, in the table itself.
func (tx *Tx) numberOf(column, table, id string) (n int64, err error) {
	for _, by := range []string{"", " NOT INDEXED"} {
		n, err = tx.number("SELECT "+column+" FROM "+table+by+" WHERE id = ?", id)
		if err == nil || !tx.mend(err) {
			break
		}
	}
	return n, err
}

// reference is how other rows name a generation.
func (tx *Tx) reference(id string) (reference, error) {
	if id == "" {
		return reference{}, tx.usable()
	}
	if tx.names.number != 0 && tx.names.generation == id {
		return reference{number: tx.names.number}, tx.usable()
	}
	var number int64
	var err error
	if k := tx.known().generations[id]; k != nil {
		number, err = k.number, tx.usable()
	} else {
		number, err = tx.numberOf("number", "generations", id)
	}
	if number == 0 || err != nil {
		return reference{id: id}, err
	}
	tx.names.generation, tx.names.number = id, number
	return reference{number: number}, nil
}

// generationOf reads the column that names a generation. Where it fails for damage, whoever mends its view and reads on gets
// no name.
func (tx *Tx) generationOf(r *row) string {
	i := r.next()
	if r.s.ColumnType(i) != sqlite3.INTEGER {
		if b := r.s.ColumnRawText(i); len(b) > 0 {
			return string(b)
		}
		return ""
	}
	number := r.s.ColumnInt64(i)
	switch {
	case tx.names.number == number:
		return tx.names.generation
	case tx.names.unreadable[number]:
		return ""
	}
	id := ""
	_, err := tx.one(func(r *row) { id = r.text() }, "SELECT id FROM generations WHERE number = ?", number)
	if err == nil {
		tx.names.generation, tx.names.number = id, number
		return id
	}
	if r.err == nil {
		r.err = err
	}
	if tx.names.unreadable == nil {
		tx.names.unreadable = map[int64]bool{}
	}
	tx.names.unreadable[number] = true
	return ""
}
