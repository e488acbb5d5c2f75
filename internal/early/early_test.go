package early

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAccountCommand(t *testing.T) {
	for line, want := range map[string]string{
		"/bin/cursor-agent --trust acp": "/bin/cursor-agent --trust", "/proc/self/exe agent acp": "/proc/self/exe agent acp", "/bin/gemini --experimental-acp": "",
	} {
		if got := strings.Join(accountCommand(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
