package appserver

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// What is taken apart by hand is what the library would have read.
func TestDeltas(t *testing.T) {
	a := &Agent{}
	for _, text := range []string{
		`{"threadId":"T","turnId":"U","itemId":"i","delta":"hello"}`,
		`{"threadId":"T","turnId":"U","itemId":"i","delta":"a \"b\" \\ \n é \u00e9 \ud83d\ude00"}`,
		`{"delta":"","itemId":"i","turnId":"U","threadId":"T2","emittedAtMs":7}`,
		`{"threadId":"T","turnId":"U","itemId":"i","delta":"x","summaryIndex":2}`,
		`{"threadId":"T","turnId":"U","itemId":"i","changes":[{"path":"/a","kind":{"type":"add"},"diff":"d"}]}`,
		`{"threadId":"T","turnId":"U","itemId":"i","processId":"1","stdin":"y\n"}`,
		`{"threadId":"T","turnId":"U","itemId":"i","message":"half"}`,
		`{"threadId":null,"turnId":"U","itemId":"i","delta":null}`,
		`{"threadId":"T","turnId":"U","itemId":"i","delta":"one","delta":"two"}`,
		"{\"threadId\":\"T\",\"turnId\":\"U\",\"itemId\":\"i\",\"delta\":\"\xff\xfe\"}",
		`{"threadId":"T","turnId":"U","itemId":"i","delta":7}`,
		`{"threadId":12,"turnId":"U","itemId":"i","delta":"x"}`,
		`{"threadId":{},"turnId":[],"itemId":true,"delta":"x"}`,
		`{}`, `[]`, `null`, `7`, ``,
		`{"threadId":"T","turnId":"U","itemId":"i","delta":"` + strings.Repeat("y", 100_000) + `"}`,
	} {
		for range 2 { // the second time with ids that are known
			var want deltaNote
			wanted := decode(json.RawMessage(text), &want)
			got, err := a.decodeDelta(json.RawMessage(text))
			if (err == nil) != (wanted == nil) || err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%.80s: %+v, %v; want %+v, %v", text, got, err, want, wanted)
			}
		}
	}
}
