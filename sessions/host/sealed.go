package host

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/bridge"
	"github.com/batonmcp/baton/sessions/journal"
)

// What is answered to a secret question must be durable before it is given to the agent, and must be in no journal. So the
// journal has a keyed digest in its place, by which a repeated answer is known again, and the value lies in a file of its
// own (0600, in the state folder, which is masked for agents) from before the answer is journalled until the request has
// its end. A file that is deleted is not wiped from the disk.

// sealedMark begins what stands in the place of a secret answer.
const sealedMark = "sealed:"

const sealedBytes = len(sealedMark) + 2*sha256.Size

func isSealed(v string) bool { return len(v) == sealedBytes && strings.HasPrefix(v, sealedMark) }

func (h *Host) sealedDir() string { return filepath.Join(h.o.Places.State, "sealed") }

func (h *Host) sealedFile(request, v string) string {
	return filepath.Join(h.sealedDir(), request+"-"+strings.TrimPrefix(v, sealedMark))
}

// seal puts digests in the place of what is answered to secret questions, and the values into files. What is wrong with
// the call is left for the call itself to find.
func (h *Host) seal(ctx context.Context, who sessions.Caller, a *sessions.RespondArgs) error {
	if len(a.Answers) == 0 {
		return nil
	}
	var q journal.Request
	if err := h.j.View(ctx, func(tx *journal.Tx) (err error) {
		if _, err = tx.GetSession(who.Principal, a.SessionID); err == nil {
			q, err = tx.GetRequest(a.SessionID, a.RequestID)
		}
		return err
	}); err != nil {
		return err
	}
	if _, err := q.Resolve(a.Decision, a.OptionID, a.Scope, a.Answers, a.Form); err != nil {
		return err
	}
	sealed := map[string][]string{}
	for id, given := range a.Answers {
		i := slices.IndexFunc(q.Questions, func(x sessions.Question) bool { return x.ID == id })
		if i < 0 || !q.Questions[i].Secret {
			sealed[id] = given
			continue
		}
		for _, value := range given {
			if slices.ContainsFunc(q.Questions[i].Options, func(o sessions.QuestionOption) bool { return o.ID == value || o.Label == value }) {
				sealed[id] = append(sealed[id], value) // one of what the agent offered is no secret
				continue
			}
			v, err := h.sealOne(a.RequestID, id, value)
			if err != nil {
				return sessions.Errorf(sessions.CodeStorageFailed, "the answer to a secret question could not be kept until it is given: %w", err).
					Do("see that the state folder can be written, then answer again")
			}
			sealed[id] = append(sealed[id], v)
		}
	}
	a.Answers = sealed
	return nil
}

func (h *Host) sealOne(request, question, value string) (string, error) {
	if err := os.Mkdir(h.sealedDir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	key, err := h.sealKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", request, question, value)
	v := sealedMark + hex.EncodeToString(mac.Sum(nil))
	path := h.sealedFile(request, v)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // the same name is the same value
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(value)
	err = errors.Join(err, f.Sync(), f.Close(), syncDir(h.sealedDir()))
	return v, err
}

// sealKey is this installation's own. It is made once, by the one host that there is.
func (h *Host) sealKey() ([]byte, error) {
	path := filepath.Join(h.o.Places.State, "sealed.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == sha256.Size {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, sha256.Size)
	rand.Read(key) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(key)
	return key, errors.Join(err, f.Sync(), f.Close(), syncDir(h.o.Places.State))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unseal gives an answer as it goes to the agent. An error says that a value is not there any more.
func (h *Host) unseal(request string, payload json.RawMessage) (any, error) {
	if !strings.Contains(string(payload), `"`+sealedMark) {
		return payload, nil
	}
	var a sessions.Answer
	if err := json.Unmarshal(payload, &a); err != nil {
		return nil, err
	}
	for _, given := range a.Answers {
		for i, v := range given {
			if !isSealed(v) {
				continue
			}
			value, err := os.ReadFile(h.sealedFile(request, v))
			if err != nil {
				return nil, err
			}
			given[i] = string(value)
		}
	}
	return a, nil
}

// lostAnswer ends a request whose secret answer is not there any more: it was not given, and never will be.
func (t *tender) lostAnswer(request string) error {
	a := applier{h: t.h, session: t.session, generation: t.generation}
	return t.h.update(t.h.life, func(tx *journal.Tx, c *changes) error {
		a.reset()
		q, found, err := tx.FindRequest(request)
		if err != nil || !found || q.State != sessions.RequestAnswering {
			return err
		}
		c.touch(t.session, true)
		if err := a.resolve(tx, q, sessions.RequestWithdraw, "the answer, which was secret, is not there any more and was not given",
			sessions.Event{Kind: sessions.EventRequestResolved, At: tx.Now(), Command: q.Command}); err != nil {
			return err
		}
		return a.flush(tx, c)
	})
}

// givenAnswer is the body of an answer for the bridge, void when it is not there any more.
func (t *tender) givenAnswer(in journal.Input) (bridge.Kind, any, error) {
	body, err := t.h.unseal(in.Ref, in.Payload)
	if err == nil {
		return bridge.InAnswer, body, nil
	}
	t.h.o.Log.Error().Err(err).Str("session", t.session).Msg("a secret answer cannot be given")
	return bridge.InVoid, nil, t.lostAnswer(in.Ref)
}

// forgetAnswers deletes the values of answers whose requests have their end, or are not known. It is called where one may have
// ended, and at every start.
func (h *Host) forgetAnswers() {
	entries, err := os.ReadDir(h.sealedDir())
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		request := e.Name()[:max(0, strings.LastIndexByte(e.Name(), '-'))]
		needed := true
		if err := h.j.View(context.WithoutCancel(h.life), func(tx *journal.Tx) error {
			q, found, err := tx.FindRequest(request)
			needed = found && (q.State == sessions.RequestPending || q.State == sessions.RequestAnswering)
			return err
		}); err != nil {
			h.o.Log.Warn().Err(err).Msg("a secret answer could not be looked at")
			continue
		}
		if !needed {
			h.removeQuietly(filepath.Join(h.sealedDir(), e.Name()))
		}
	}
}
