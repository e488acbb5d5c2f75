package install

import (
	"bytes"
	"testing"
)

// FuzzEdit: whatever a configuration holds, it is refused, or the entry goes in once and comes out again. That nothing
// else changes is checked by the edit itself, with every input.
func FuzzEdit(f *testing.F) {
	for _, tt := range hairy {
		f.Add(tt.host, []byte(tt.text))
	}
	for _, tt := range older {
		f.Add(tt.host, []byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		h, err := Find(name)
		if err != nil {
			return
		}
		after, err := h.with("file", text, "baton", testCommand)
		if err != nil {
			return
		}
		again, err := h.with("file", after, "baton", testCommand)
		if err != nil || !bytes.Equal(again, after) {
			t.Fatalf("a second time: %v\n%q\n%q", err, after, again)
		}
		d, err := h.parse("file", bytes.TrimPrefix(after, byteOrderMark))
		if err != nil {
			t.Fatal(err)
		}
		entry := append(append([]string(nil), h.servers...), "baton")
		edits, err := d.remove(entry)
		if err != nil {
			return
		}
		if err := h.check("file", d.(interface{ source() []byte }).source(), apply(d.(interface{ source() []byte }).source(), edits), entry, nil); err != nil {
			t.Fatalf("it cannot be taken out again: %v\n%q", err, after)
		}
	})
}

func (d *jsonDocument) source() []byte { return d.text }
func (d *tomlDocument) source() []byte { return d.text }
