package journal

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// What lies between the two ends of a page goes; all else of the file stays.
func TestEmptyGap(t *testing.T) {
	page := func(kind byte, cells, content, free int) []byte {
		b := bytes.Repeat([]byte{0xee}, pageSize)
		b[0] = kind
		binary.BigEndian.PutUint16(b[1:], uint16(free))
		binary.BigEndian.PutUint16(b[3:], uint16(cells))
		binary.BigEndian.PutUint16(b[5:], uint16(content))
		sum := pageSum(b[:pageEnd])
		copy(b[pageEnd:], sum[:])
		return b
	}
	for name, c := range map[string]struct {
		page     []byte
		pgno     int64
		from, to int
	}{
		"leaf of a table":      {page(13, 4, 1000, 0), 3, 16, 1000},
		"leaf of an index":     {page(10, 4, 1000, 0), 3, 16, 1000},
		"inner of a table":     {page(5, 4, 1000, 2000), 817, 20, 1000},
		"inner of an index":    {page(2, 4, 1000, 0), 821, 20, 1000},
		"empty leaf":           {page(13, 0, pageEnd, 0), 3, 8, pageEnd},
		"full leaf":            {page(13, 496, 1000, 0), 3, 0, 0},
		"first page":           {page(13, 4, 1000, 0), 1, 0, 0},
		"first map":            {page(5, 4, 1000, 0), 2, 0, 0},
		"second map":           {page(2, 4, 1000, 0), 820, 0, 0},
		"overflow or free":     {page(0, 4, 1000, 0), 3, 0, 0},
		"ends beyond the page": {page(13, 4, pageSize, 0), 3, 0, 0},
		"free space in it":     {page(13, 4, 1000, 500), 3, 0, 0},
		"no checksum":          {append(page(13, 4, 1000, 0)[:pageEnd], "12345678"...), 3, 0, 0},
		"not a page":           {page(13, 4, 1000, 0)[:512], 3, 0, 0},
	} {
		want := bytes.Clone(c.page)
		if c.to > 0 {
			clear(want[c.from:c.to])
			sum := pageSum(want[:pageEnd])
			copy(want[pageEnd:], sum[:])
		}
		if emptyGap(c.page, c.pgno); !bytes.Equal(c.page, want) {
			t.Errorf("%s: changed otherwise than between %d and %d", name, c.from, c.to)
		}
	}
}
