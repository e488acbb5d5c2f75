package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonmcp/baton/internal/own"
	"github.com/batonmcp/baton/sessions"
	"github.com/batonmcp/baton/sessions/journal"
)

// BenchmarkRead is a page of what streams, from the journal to the events that a program of its own gets.
func BenchmarkRead(b *testing.B) {
	h, id := aStream(b)
	a := sessions.ReadArgs{SessionID: id, Limit: sessions.MaxReadLimit, MaxChars: sessions.MaxChars}
	for name, read := range map[string]func() ([]byte, error){
		"decoded": func() ([]byte, error) {
			page, err := h.Read(b.Context(), sessions.Caller{Principal: "local"}, a)
			if err != nil {
				return nil, err
			}
			return json.Marshal(page)
		},
		"handed on": func() ([]byte, error) { return h.ReadJSON(b.Context(), sessions.Caller{Principal: "local"}, a) },
	} {
		for _, client := range []bool{false, true} {
			b.Run(fmt.Sprint(name, ", client ", client), func(b *testing.B) {
				events := 0
				for b.Loop() {
					raw, err := read()
					if err != nil {
						b.Fatal(err)
					}
					if !client {
						continue
					}
					var page sessions.ReadResult
					if err := own.Unmarshal(raw, &page); err != nil {
						b.Fatal(err)
					}
					events = len(page.Events)
				}
				if client {
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*events), "µs/event")
				}
			})
		}
	}
}

// aStream is a journal with a session of texts and tools as agents stream them.
func aStream(tb testing.TB) (*Host, string) {
	j, err := journal.Open(context.Background(), filepath.Join(tb.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { j.Close() })
	id := sessions.NewID()
	evs := make([]sessions.Event, 1000)
	for i := range evs {
		evs[i] = sessions.Event{Command: "c", Generation: id, Turn: id, Item: fmt.Sprint("item-", i)}
		if e := &evs[i]; i%3 == 0 {
			e.Kind, e.Text = sessions.EventText, strings.Repeat("words and more of them\n", 35)
		} else {
			e.Kind = sessions.EventToolCompleted
			e.Tool = &sessions.Tool{Name: "command", Title: "ls -l", Status: "completed", Output: strings.Repeat("a line\n", i%3*10),
				Detail: json.RawMessage(`{"command":"ls -l","commandActions":[],"cwd":"/home/somebody/work","durationMs":20,"exitCode":0,"processId":null,"type":"commandExecution"}`)}
		}
	}
	err = j.Update(context.Background(), func(tx *journal.Tx) error {
		if err := tx.InsertSession(&journal.Session{ID: id, Principal: "local"}); err != nil {
			return err
		}
		_, err := tx.AppendEvents(id, evs)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &Host{j: j}, id
}
