package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := encodeTo(&b, v)
	return b.Bytes(), err
}

// What is written by hand is JSON, and what is read by hand is what the library reads.
func TestFramesByHand(t *testing.T) {
	for _, c := range []struct {
		typ  string
		n    uint64
		kind Kind
		body any
		hand bool // read without the library
	}{
		{typeOut, 7, OutEvent, sessions.Event{Kind: sessions.EventText, Text: "a\"}\n{b"}, true},
		{typeAck, math.MaxUint64, "", nil, true},
		{typeHello, 0, "", Hello{Version: "1"}, true},
		{typeIn, 1, InPrompt, "}", true},
		{"it's", 1, "", nil, false},
		{typeOut, 1, "a kind of \"later\" versions", nil, false},
	} {
		line, err := frameOf(c.typ, c.n, c.kind, c.body)
		if err != nil {
			t.Fatal(err)
		}
		var want Frame
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if want.Type != c.typ || want.N != c.n || want.Kind != c.kind {
			t.Errorf("%s means %+v", line, want)
		}
		got, ok := splitFrame(line)
		if ok != c.hand || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is taken as %+v, %v; want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "{}\n", `{"t":"out"}`, `{"t":"out","b":}` + "\n", `{"t":"out","n":x,"b":1}` + "\n", `{"t":"out","n":1` + "\n",
		`{"t":"out","n":99999999999999999999,"b":1}` + "\n", `{"t":"out","ch":1,"b":1}` + "\n", `{ "t":"out","b":1}` + "\n", `{"t":"out","k":"e`} {
		if f, ok := splitFrame([]byte(line)); ok {
			t.Errorf("%q is taken as %+v", line, f)
		}
	}
}

func TestFramesRoundTrip(t *testing.T) {
	bodies := map[string]any{
		"nothing": nil,
		"text":    sessions.Event{Kind: sessions.EventText, Text: "<b>&\u2028\x00é\n"},
		"raw":     sessions.Event{Kind: sessions.EventError, Raw: []byte(`{"a":"<&>"}`)},
		"result":  InputResult{N: 3, Kind: InPrompt, State: InputBroken, Error: sessions.Errorf(sessions.CodeTimeout, "late").Do("wait")},
	}
	var stream bytes.Buffer
	var want []Frame
	for _, typ := range []string{typeAttach, typeHello, typeRefuse, typeIn, typeGot, typeOut, typeAck, "tomorrow's"} {
		for name, body := range bodies {
			line, err := frameOf(typ, math.MaxUint64, Kind(name), body)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(line, []byte("\n")) != 1 || bytes.Contains(line, []byte(`\u003c`)) {
				t.Errorf("%s: %q", name, line)
			}
			stream.Write(line)
			raw, _ := encode(body)
			want = append(want, Frame{Type: typ, N: math.MaxUint64, Kind: Kind(name), Body: bytes.TrimSpace(raw)})
		}
	}
	r := bufio.NewReaderSize(&stream, 16)
	for i, w := range want {
		f, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if w.Kind == "nothing" {
			w.Body = []byte("null")
		}
		if !reflect.DeepEqual(f, w) {
			t.Errorf("frame %d: %+v, want %+v", i, f, w)
		}
	}
	if _, err := readFrame(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestUnreadableFrames(t *testing.T) {
	const limit = 64
	for name, c := range map[string]struct {
		in   string
		want error // nil: some error
	}{
		"end":        {"", io.EOF},
		"torn":       {`{"t":"out","n":1`, io.ErrUnexpectedEOF},
		"no newline": {`{"t":"out","n":1}`, io.ErrUnexpectedEOF},
		"no JSON":    {"hello\n", nil},
		"no object":  {"[1]\n", nil},
		"blank":      {"\n", nil},
		"too long":   {`{"t":"` + strings.Repeat("x", 200) + `"}` + "\n", errFrameTooLong},
		"endless":    {strings.Repeat("x", 200), errFrameTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := readFrameUpTo(bufio.NewReaderSize(strings.NewReader(c.in), 16), limit)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%+v, %v, want %v", f, err, c.want)
			}
		})
	}
}

func TestFrameOfWhatCannotBeEncoded(t *testing.T) {
	if line, err := frameOf(typeOut, 1, OutEvent, sessions.Event{Data: map[string]any{"x": math.NaN()}}); err == nil {
		t.Errorf("%s", line)
	}
}

func TestSpill(t *testing.T) {
	var frames [][]byte
	for n := range uint64(3) {
		line, err := frameOf(typeOut, n+5, OutEvent, sessions.Event{Kind: sessions.EventText, Text: "hi"})
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, line)
	}
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		tail string
		do   error
		n    int
		ok   bool
	}{
		"whole":             {"", nil, 3, true},
		"torn last line":    {string(frames[0][:20]), nil, 3, true}, // it was never promised to anybody
		"damaged last line": {"\x00\x00\x00\n", nil, 3, false},
		"do refuses":        {"", stop, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spill")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := writeSpill(f, frames); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(c.tail); err != nil {
				t.Fatal(err)
			}
			var got []uint64
			err = ReadSpill(path, func(f Frame) error {
				got = append(got, f.N)
				if !f.IsOut() || f.Kind != OutEvent {
					t.Errorf("%+v", f)
				}
				return c.do
			})
			if (err == nil) != c.ok || len(got) != c.n || got[0] != 5 {
				t.Errorf("read %v, %v", got, err)
			}
		})
	}
}

func TestSpillMissing(t *testing.T) {
	if err := writeSpill(nil, nil); err != nil {
		t.Errorf("nothing to spill: %v", err)
	}
	if err := writeSpill(nil, [][]byte{[]byte("x\n")}); err == nil {
		t.Error("frames were dropped without an error")
	}
	if err := ReadSpill(filepath.Join(t.TempDir(), "none"), nil); err != nil {
		t.Errorf("no spill file: %v", err)
	}
	if err := ReadSpill(t.TempDir(), nil); err == nil {
		t.Error("a folder was read as a spill file")
	}
}
