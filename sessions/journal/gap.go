package journal

import "encoding/binary"

// pageSize is that of every journal, and pageEnd where what SQLite uses of a page ends: before the library's checksum.
const (
	pageSize = 4096
	pageEnd  = pageSize - 8
)

// gapLimit is the size of a file of 1<<23 pages.
const gapLimit = pageSize << 23

// emptyGap empties the room between the two ends of a page of a table or index, which grow towards each other. SQLite
// (3.53) leaves there what it moved to another page, deleted later or not, whatever secure_delete says. pgno is the page's
// number, from 1. Pages of other kinds stay as they are: the first, for it has the schema; those of the map of pages, which stand at
// fixed numbers; those that begin with the number of another page, whose first byte is 0 in a file below gapLimit; and what
// has no checksum.
func emptyGap(page []byte, pgno int64) {
	const group = pageEnd/5 + 1 // a page of the map and the pages that it is about
	if len(page) != pageSize || pgno < 2 || (pgno-2)%group == 0 {
		return
	}
	head := 8
	switch page[0] {
	case 2, 5: // inner pages of an index and a table
		head = 12
	case 10, 13: // their leaves
	default:
		return
	}
	from, to := head+2*int(binary.BigEndian.Uint16(page[3:])), int(binary.BigEndian.Uint16(page[5:]))
	if free := int(binary.BigEndian.Uint16(page[1:])); to > pageEnd || from >= to || free != 0 && free < to {
		return
	}
	if sum := pageSum(page[:pageEnd]); string(sum[:]) != string(page[pageEnd:]) {
		return
	}
	clear(page[from:to])
	sum := pageSum(page[:pageEnd])
	copy(page[pageEnd:], sum[:])
}

// pageSum is the checksum that the library keeps at the end of a page.
func pageSum(b []byte) (sum [8]byte) {
	var s1, s2 uint32
	for ; len(b) >= 8; b = b[8:] {
		s1 += binary.LittleEndian.Uint32(b) + s2
		s2 += binary.LittleEndian.Uint32(b[4:]) + s1
	}
	binary.LittleEndian.PutUint32(sum[:], s1)
	binary.LittleEndian.PutUint32(sum[4:], s2)
	return sum
}
