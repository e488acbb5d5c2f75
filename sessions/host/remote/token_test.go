package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// A token that a crash of the machine left empty or full of zero bytes is told as that, with what to do about it.
func TestTokenThatCannotBeRead(t *testing.T) {
	for name, left := range map[string]string{"empty": "", "zero bytes": strings.Repeat("\x00", 64)} {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			file := filepath.Join(filepath.Dir(path), "token")
			if err := os.WriteFile(file, []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
			c := New(Options{Socket: path, TokenFile: file})
			_, err := c.Status(context.Background())
			e := sessions.AsError(err)
			if err == nil || e.Code != sessions.CodeStorageFailed || !strings.Contains(e.Message, file) || !strings.Contains(e.Action, "remove "+file) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
