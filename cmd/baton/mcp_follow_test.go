package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/batonmcp/baton/sessions"
)

// TestFollowersLetTheHostGo: a front end whose client follows the list of sessions neither keeps an idle host nor starts one,
// and hears of what happens under the next.
func TestFollowersLetTheHostGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config, err := os.ReadFile(w.path("baton/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("baton/config.toml", strings.Replace(string(config), `idle_exit = "20s"`, `idle_exit = "1s"`, 1))
	f := w.openWith(nil) // which hears notifications
	defer f.close()
	news := make(chan string, 10)
	f.c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == mcp.MethodNotificationResourceUpdated {
			news <- fmt.Sprint(n.Params.AdditionalFields["uri"])
		}
	})
	list := "baton://sessions"
	//lint:ignore SA1019 clients before 2026-07-28 do it so
	if err := f.c.Subscribe(t.Context(), mcp.SubscribeRequest{Params: mcp.SubscribeParams{URI: list}}); err != nil {
		t.Fatal(err)
	}
	said := func(what string) int {
		log, err := os.ReadFile(w.path("baton/state/logs/host.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), what)
	}
	hosts := func() int { return said(`"host serves"`) }
	await(t, "the end of the idle host", func() bool { return said(`"host ends"`) > 0 })
	if n := hosts(); n != 1 {
		t.Errorf("%d hosts began", n)
	}
	w.write("baton/config.toml", string(config)) // the next host stays until the end of the test
	other := w.open()
	defer other.close()
	s := w.create(other, "codexlike", nil)
	if got := <-news; got != list {
		t.Errorf("news of %s", got)
	}
	if n := hosts(); n != 2 {
		t.Errorf("%d hosts began", n)
	}
	call[sessions.CloseResult](other, "session_close", args{"session_id": s.SessionID})
}
