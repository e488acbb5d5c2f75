package bridge

import (
	"os"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// enterable opens the directory that the agent is to start in, nil where its path alone is known. It looks at all of the
// session's directories: the agent is told them by their paths, so that one which was replaced since the host looked would
// lead it elsewhere.
func enterable(s Spec) (in *os.File, err error) {
	for _, p := range s.Pins {
		f, err := p.Open()
		if err != nil {
			if in != nil {
				in.Close()
			}
			return nil, Replaced(p, err)
		}
		if p.Path == s.Dir && in == nil {
			in = f
			continue
		}
		f.Close()
	}
	return in, nil
}

// Replaced is what a caller is told of a directory that cannot be entered, or is another one than the host looked at.
func Replaced(p sandbox.Pin, err error) *sessions.Error {
	return sessions.Errorf(sessions.CodeInvalidParams, "the agent was not started in %.200q: %w", p.Path, err).
		Do("see who moves or replaces that directory and that you may enter it, then create or resume the session again")
}
