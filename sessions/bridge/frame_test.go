package bridge

import (
	"bufio"
	"bytes"
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
