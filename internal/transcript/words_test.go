package transcript

import (
	"slices"
	"strings"
	"testing"
)

// What an agent said last is shown from where agents say it, and else from where some do.
func TestLastWords(t *testing.T) {
	for name, c := range map[string]struct {
		details map[string]any
		want    []string
	}{
		"nothing":         {nil, nil},
		"blank":           {map[string]any{"stderr": " \n"}, nil},
		"no text":         {map[string]any{"stderr": 7}, nil},
		"standard error":  {map[string]any{"stderr": "a\r\nb\n", "stdout": "c"}, []string{"the agent wrote to its standard error:", "| a", "| b"}},
		"standard output": {map[string]any{"stderr": "", "stdout": "c"}, []string{"the agent wrote to its standard output:", "| c"}},
		"the end of much": {map[string]any{"stdout": strings.Repeat("x", 5000) + "\nlast"},
			[]string{"the agent wrote to its standard output, at the end:", "| " + strings.Repeat("x", tailBytes-5), "| last"}},
	} {
		if got := LastWords(c.details); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
