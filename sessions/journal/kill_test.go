package journal

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// childEnv makes this test binary the victim of TestKill: it writes to the journal named and prints what was
// acknowledged, until it is killed.
const childEnv = "BATON_JOURNAL_VICTIM"

func victim(path string) error {
	j, err := Open(context.Background(), path, Options{checkpoint: 50})
	if err != nil {
		return err
	}
	id := sessions.NewID()
	if err := j.Update(context.Background(), func(tx *Tx) error { return tx.InsertSession(&Session{ID: id}) }); err != nil {
		return err
	}
	for range 8 {
		go func() {
			for {
				var first int64
				err := j.Update(context.Background(), func(tx *Tx) (err error) {
					first, err = tx.AppendEvents(id, warnings(1))
					return err
				})
				if err != nil {
					fmt.Println("error:", err)
					return
				}
				fmt.Printf("%s %d\n", id, first) // one write: lines of several callers do not mix
			}
		}()
	}
	select {}
}

// JO-04: the host is killed over and over while it writes, on the real file system. What it acknowledged is there, and
// the journal opens.
func TestKill(t *testing.T) {
	rounds := amount(3, 8, 1000)
	path := filepath.Join(t.TempDir(), "journal.db")
	acked := map[string]int64{}
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		kill := time.AfterFunc(time.Hour, func() {})
		for lines.Scan() {
			var id string
			var seq int64
			if _, err := fmt.Sscanf(lines.Text(), "%s %d", &id, &seq); err != nil || strings.HasPrefix(id, "error") {
				t.Errorf("the victim says %q", lines.Text())
				break
			}
			if len(acked) == 0 || acked[id] == 0 { // the moment varies from the first answer on
				kill.Stop()
				kill = time.AfterFunc(rand.N(40*time.Millisecond), func() { _ = cmd.Process.Kill() })
			}
			acked[id] = max(acked[id], seq)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		kill.Stop()
	}
	j := checked(t, openAt(t, path, Options{}))
	if len(acked) != rounds {
		t.Errorf("%d of %d victims acknowledged anything", len(acked), rounds)
	}
	view(t, j, func(tx *Tx) error {
		for id, seq := range acked {
			s, err := tx.GetSession("", id)
			if err != nil || s.LastSeq < seq {
				t.Errorf("event %d of %s was acknowledged, %d are there (%v)", seq, id, s.LastSeq, err)
			}
		}
		return nil
	})
}
