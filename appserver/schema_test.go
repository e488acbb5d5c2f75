package appserver

import (
	"encoding/json"
	"testing"

	"github.com/batonmcp/baton/fixtures/codexschema"
)

// checkSchema holds the params, or with codexschema.Result the result, of a method against Codex's own schema, whoever says
// it, so that the tests are not our reading against our own writing.
func checkSchema(t *testing.T, kind, method string, value json.RawMessage) {
	t.Helper()
	if err := codexschema.Check(kind, method, value); err != nil {
		t.Error(err)
	}
}

func methods(t *testing.T, kind string) []string {
	t.Helper()
	all, err := codexschema.Methods(kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
