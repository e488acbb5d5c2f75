package sessions

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// EncodeCursor makes the opaque cursor of a session after its event seq (0: before the first).
func EncodeCursor(session string, seq int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("1:" + session + ":" + strconv.FormatInt(seq, 10)))
}

// DecodeCursor reads a cursor of the session; "" is its beginning. A cursor of another session, or none at all, is
// CodeCursorInvalid.
func DecodeCursor(session, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	refuse := func(why string) (int64, error) {
		return 0, Errorf(CodeCursorInvalid, "cursor %.80q %s", cursor, why).
			Do("use a cursor that a call on session %s returned, or leave it out to read from the beginning", session)
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return refuse("is not a cursor")
	}
	p := strings.Split(string(b), ":")
	if len(p) != 3 || p[0] != "1" {
		return refuse("is not a cursor of this version")
	}
	if p[1] != session {
		return refuse("belongs to another session")
	}
	seq, err := strconv.ParseInt(p[2], 10, 64)
	if err != nil || seq < 0 {
		return refuse("is damaged")
	}
	return seq, nil
}

// NewSessionID makes a session's id: a lowercase UUID whose beginning alone tells it from others, since people name a
// session by that.
func NewSessionID() string { return uuid.NewString() }

// NewID makes a generation, command, request or lease id, or a key: a lowercase UUID that begins with the time, so that the
// journal's indexes grow at their ends.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// CheckUUID refuses anything that is not a lowercase UUID in its canonical form; what names the argument in the error.
func CheckUUID(what, id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id {
		return Errorf(CodeInvalidParams, "%s %.80q is not a lowercase UUID", what, id).Do("give one like %s", "0b6c1f5e-3f0a-4c3e-9d55-2f1f6f0c7a11")
	}
	return nil
}

// CheckName refuses caller-chosen ids and keys that are empty, over 128 bytes, or hold anything but printable ASCII
// without spaces.
func CheckName(what, id string) error {
	if id == "" || len(id) > 128 {
		return Errorf(CodeInvalidParams, "%s has %d characters", what, len(id)).Do("use 1 to 128 printable ASCII characters")
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return Errorf(CodeInvalidParams, "%s holds the character %s", what, fmt.Sprintf("%#x", id[i])).Do("use printable ASCII without spaces")
		}
	}
	return nil
}

// DerivedID makes the UUID that stands for a key of a principal when the caller chose no id itself, so that the same
// key always names the same thing.
func DerivedID(kind, principal, key string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("baton:"+kind+":"+principal+":"+key)).String()
}
