package remote

import (
	"context"
	"errors"

	"golang.org/x/mod/semver"
)

// upgrade lets a front end of a newer release replace an older host before its first call. Sessions go on: the next
// host adopts them. A host of the same or a newer release, or one that cannot be asked, is left alone.
func (c *Client) upgrade(ctx context.Context) {
	if !semver.IsValid("v" + c.o.Version) {
		return // newer than nothing: the question is not worth a connection
	}
	c.upgraded.Do(func() {
		s, err := c.Status(ctx)
		if err != nil || !newer(c.o.Version, s.Version) {
			return // no host, or one that the call itself will meet
		}
		c.log.Info().Str("host", s.Version).Str("ours", c.o.Version).Msg("asking an older host to make room")
		if _, err := c.Stop(ctx); err != nil && !errors.Is(err, ErrNoHost) {
			c.log.Warn().Err(err).Msg("the older host did not take the stop")
		}
	})
}

// newer compares releases as semantic versions; what is none is never newer.
func newer(ours, theirs string) bool {
	ours, theirs = "v"+ours, "v"+theirs
	return semver.IsValid(ours) && semver.IsValid(theirs) && semver.Compare(ours, theirs) > 0
}
