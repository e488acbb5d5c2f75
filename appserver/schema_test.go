package appserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schema is Codex's own, of the version that the package speaks of: `codex app-server generate-json-schema
// --experimental` of 0.171.0, without its prose; Results.json holds those of its response schemas that are needed, by
// method. What a conversation makes either side say is checked against it, so
// that the tests are not our reading against our own writing.
const schemaVersion = "0.171.0"

// schema checks messages by their method.
type schema struct {
	compiler *jsonschema.Compiler
	branch   map[string]string // "ServerNotification turn/started" to the place of its params
	compiled map[string]*jsonschema.Schema
}

var loadSchema = sync.OnceValues(func() (*schema, error) {
	s := &schema{compiler: jsonschema.NewCompiler(), branch: map[string]string{}, compiled: map[string]*jsonschema.Schema{}}
	s.compiler.DefaultDraft(jsonschema.Draft7)
	for _, name := range []string{"ServerNotification", "ServerRequest", "ClientRequest", "Results"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "schema", name+".json"))
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		if err := s.compiler.AddResource("codex:"+name, doc); err != nil {
			return nil, err
		}
		var shape struct {
			OneOf []struct {
				Properties struct {
					Method struct{ Enum []string }
				}
			}
			Properties map[string]json.RawMessage
		}
		if err := json.Unmarshal(raw, &shape); err != nil {
			return nil, err
		}
		for i, b := range shape.OneOf {
			s.branch[name+" "+b.Properties.Method.Enum[0]] = fmt.Sprintf("codex:%s#/oneOf/%d/properties/params", name, i)
		}
		if name != "Results" {
			continue
		}
		for method := range shape.Properties {
			s.branch[name+" "+method] = "codex:" + name + "#/properties/" + strings.ReplaceAll(method, "/", "~1")
		}
	}
	return s, nil
})

// check validates the params, or with "Results" the result, of a method.
func (s *schema) check(t *testing.T, side, method string, value json.RawMessage) {
	t.Helper()
	at, ok := s.branch[side+" "+method]
	if !ok {
		t.Errorf("Codex %s has no %s %s", schemaVersion, side, method)
		return
	}
	compiled := s.compiled[at]
	if compiled == nil {
		var err error
		if compiled, err = s.compiler.Compile(at); err != nil {
			t.Fatal(err)
		}
		s.compiled[at] = compiled
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err == nil {
		err = compiled.Validate(v)
	}
	if err != nil {
		t.Errorf("%s %s does not fit the schema: %v\n%s", side, method, err, value)
	}
}

func methods(t *testing.T, side string) []string {
	t.Helper()
	s, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for name := range s.branch {
		if method, ok := strings.CutPrefix(name, side+" "); ok {
			out = append(out, method)
		}
	}
	return out
}
