package httpd

import (
	"context"
	"time"
)

// Every request is held against the file of tokens, and an open one again and again. A file that cannot be read, is not
// there or cannot be understood says nothing of any token. So nothing new is let in meanwhile; what was let in by the last
// file that could be read goes on for unreadableFor, since that may be a moment without a free descriptor, or between a
// removal and a rename; then it ends as if there were no tokens. A token that is revoked in that time lives no longer.
const (
	revokeEvery   = 2 * time.Second // how often an open stream is held against the tokens
	unreadableFor = 3 * revokeEvery
)

// tokens reads the tokens, none where they could not be read for long. The error says that nobody knows at the moment.
func (s *Server) tokens() ([]Token, error) {
	all, err := s.o.Tokens.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.known = time.Now()
		return all, nil
	}
	s.o.Log.Warn().Err(err).Msg("the tokens cannot be read")
	if time.Since(s.known) >= s.unreadable {
		return nil, nil
	}
	return nil, err
}

// whileValid ends a request whose token is revoked while it lasts.
func (s *Server) whileValid(ctx context.Context, end context.CancelFunc, secret string) {
	t := time.NewTicker(s.recheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			all, err := s.tokens()
			if err != nil {
				continue
			}
			if _, ok := find(all, secret); !ok {
				end()
				s.closeBut(all)
				return
			}
		}
	}
}
