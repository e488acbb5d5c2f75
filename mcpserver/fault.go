package mcpserver

import (
	"context"
	"fmt"
)

// fault is the protocol error that a handler wants, which mcp-go would turn into -32603.
type fault struct {
	code int
	data map[string]any
}

type faultKey struct{}

func withFault(ctx context.Context) (context.Context, *fault) {
	f := new(fault)
	return context.WithValue(ctx, faultKey{}, f), f
}

// refuse notes which error a request ends with.
func refuse(ctx context.Context, code int, data map[string]any, err error) error {
	if f, ok := ctx.Value(faultKey{}).(*fault); ok {
		f.code, f.data = code, data
	}
	return fmt.Errorf("%w", err)
}
