package wire

import (
	"encoding/json"
	"testing"
)

func TestMember(t *testing.T) {
	for _, c := range []struct{ object, name, want string }{
		{`{"a":1,"b":{"a":2}}`, "b", `{"a":2}`},
		{`{"a":1,"b":{"a":2}}`, "a", `1`},
		{`{ "a" : [ "}" , {"b":3} ] , "b" : null }`, "b", `null`},
		{`{"a":"x\"}\\","b":"y"}`, "b", `"y"`},
		{`{"a":1,"a":2}`, "a", `2`},
		{`{"\u0061":1}`, "a", `1`},
		{`{"A":1}`, "a", ``},
		{`{}`, "a", ``},
		{`[{"a":1}]`, "a", ``},
		{`null`, "a", ``},
		{``, "a", ``},
	} {
		if !json.Valid([]byte(c.object)) && c.object != "" {
			t.Fatalf("%s is no JSON", c.object)
		}
		if got := Member(json.RawMessage(c.object), c.name); string(got) != c.want {
			t.Errorf("%s of %s is %s, want %s", c.name, c.object, got, c.want)
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{`{"a":"b"}`, "b"},
		{`{"a":"\u00e9\n\"\ud800"}`, "é\n\"\ufffd"},
		{`{"a":""}`, ""},
		{`{"a":1}`, ""},
		{`{"a":null}`, ""},
		{`{"a":["b"]}`, ""},
		{`{"b":"a"}`, ""},
		{`"a"`, ""},
	} {
		if got := String(json.RawMessage(c.object), "a"); got != c.want {
			t.Errorf("%s: %q, want %q", c.object, got, c.want)
		}
	}
}

func TestWithout(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{`{"a":1,"b":2,"c":3}`, `{"b":2}`},
		{`{"b":{"a":1}}`, `{"b":{"a":1}}`},
		{`{"a":1}`, `{}`},
		{`{}`, `{}`},
		{`{ "x" : [ 1 ] , "c" : 1 , "y" : "}" }`, `{"x":[ 1 ],"y":"}"}`},
		{`{"\u0061":1,"q\"\n":2}`, `{"q\"\n":2}`},
		{`[]`, ``},
	} {
		got := Without(json.RawMessage(c.object), "a", "c")
		if string(got) != c.want || got != nil && !json.Valid(got) {
			t.Errorf("%s: %s, want %s", c.object, got, c.want)
		}
	}
}
