package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// progressEvery keeps hosts waiting that give up on a silent call; half of the 10 s that are promised.
const progressEvery = 5 * time.Second

// notifier is a client session that writes in order with the answer.
type notifier interface {
	Notify(ctx context.Context, method string, params any) error
}

// progress tells the client at intervals that its call is alive, until stop is called. It does so only for a client
// that gave a token. After stop has returned nothing follows.
func progress(ctx context.Context, token json.RawMessage, tool string) (stop func()) {
	client, ok := sessionOf(ctx)
	if !ok || token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			seconds := n * int(progressEvery/time.Second)
			if client.Notify(ctx, "notifications/progress", map[string]any{"progressToken": token, "progress": seconds,
				"message": fmt.Sprintf("%s: %d s", tool, seconds)}) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
