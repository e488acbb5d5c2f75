package remote

import (
	"context"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// RunnerList implements sessions.API.
func (c *Client) RunnerList(ctx context.Context, who sessions.Caller, a sessions.RunnerListArgs) (sessions.RunnerListResult, error) {
	return invoke[sessions.RunnerListResult](ctx, c, verbRunnerList, "", who, a, nil)
}

// Create implements sessions.API. Without a key the session id is made here, and then the first command's as well: with
// a key of the caller's they would be part of a meaning that the caller could not repeat.
func (c *Client) Create(ctx context.Context, who sessions.Caller, a sessions.CreateArgs) (sessions.CreateResult, error) {
	if a.SessionID == "" && a.Key == "" {
		a.SessionID = sessions.NewSessionID()
		if a.Prompt != "" && a.CommandID == "" {
			a.CommandID = sessions.NewID()
		}
	}
	return invoke[sessions.CreateResult](ctx, c, verbCreate, first(a.Key, a.SessionID), who, a,
		func(a *sessions.CreateArgs, spent time.Duration) {
			a.WaitSeconds = left(a.WaitSeconds, sessions.DefaultWaitSeconds, spent)
		})
}

// Send implements sessions.API.
func (c *Client) Send(ctx context.Context, who sessions.Caller, a sessions.SendArgs) (sessions.SendResult, error) {
	a.CommandID = first(a.CommandID, sessions.NewID())
	return invoke[sessions.SendResult](ctx, c, verbSend, a.CommandID, bare(who), a,
		func(a *sessions.SendArgs, spent time.Duration) { a.WaitSeconds = left(a.WaitSeconds, 0, spent) })
}

// Wait implements sessions.API.
func (c *Client) Wait(ctx context.Context, who sessions.Caller, a sessions.WaitArgs) (sessions.WaitResult, error) {
	return invoke[sessions.WaitResult](ctx, c, verbWait, "", bare(who), a,
		func(a *sessions.WaitArgs, spent time.Duration) {
			a.WaitSeconds = left(a.WaitSeconds, sessions.DefaultWaitSeconds, spent)
		})
}

// Read implements sessions.API.
func (c *Client) Read(ctx context.Context, who sessions.Caller, a sessions.ReadArgs) (sessions.ReadResult, error) {
	return invoke[sessions.ReadResult](ctx, c, verbRead, "", bare(who), a, nil)
}

// Respond implements sessions.API.
func (c *Client) Respond(ctx context.Context, who sessions.Caller, a sessions.RespondArgs) (sessions.RespondResult, error) {
	a.Key = first(a.Key, sessions.NewID())
	return invoke[sessions.RespondResult](ctx, c, verbRespond, a.Key, bare(who), a, nil)
}

// Cancel implements sessions.API.
func (c *Client) Cancel(ctx context.Context, who sessions.Caller, a sessions.CancelArgs) (sessions.CancelResult, error) {
	a.Key = first(a.Key, sessions.NewID())
	return invoke[sessions.CancelResult](ctx, c, verbCancel, a.Key, bare(who), a, nil)
}

// Close implements sessions.API; it closes a session, not the client.
func (c *Client) Close(ctx context.Context, who sessions.Caller, a sessions.CloseArgs) (sessions.CloseResult, error) {
	a.Key = first(a.Key, sessions.NewID())
	return invoke[sessions.CloseResult](ctx, c, verbClose, a.Key, who, a,
		func(a *sessions.CloseArgs, spent time.Duration) { a.WaitSeconds = given(a.WaitSeconds, spent) })
}

// Resume implements sessions.API.
func (c *Client) Resume(ctx context.Context, who sessions.Caller, a sessions.ResumeArgs) (sessions.ResumeResult, error) {
	a.Key = first(a.Key, sessions.NewID())
	return invoke[sessions.ResumeResult](ctx, c, verbResume, a.Key, who, a,
		func(a *sessions.ResumeArgs, spent time.Duration) { a.WaitSeconds = given(a.WaitSeconds, spent) })
}

// List implements sessions.API.
func (c *Client) List(ctx context.Context, who sessions.Caller, a sessions.ListArgs) (sessions.ListResult, error) {
	return invoke[sessions.ListResult](ctx, c, verbList, "", bare(who), a, nil)
}

// bare is a caller as the host is told of one whose call launches nothing: without the environment, which is for that.
func bare(who sessions.Caller) sessions.Caller {
	who.Env = nil
	return who
}

// Foreign implements sessions.ForeignAPI.
func (c *Client) Foreign(ctx context.Context, who sessions.Caller, a sessions.ForeignArgs) (sessions.ForeignResult, error) {
	return invoke[sessions.ForeignResult](ctx, c, verbForeign, "", who, a, nil)
}

// ForeignRead implements sessions.ForeignAPI.
func (c *Client) ForeignRead(ctx context.Context, who sessions.Caller, a sessions.ForeignReadArgs) (sessions.ForeignReadResult, error) {
	return invoke[sessions.ForeignReadResult](ctx, c, verbForeignRead, "", who, a, nil)
}

// Adopt implements sessions.ForeignAPI.
func (c *Client) Adopt(ctx context.Context, who sessions.Caller, a sessions.AdoptArgs) (sessions.CreateResult, error) {
	if a.SessionID == "" && a.Key == "" {
		a.SessionID = sessions.NewSessionID()
	}
	return invoke[sessions.CreateResult](ctx, c, verbAdopt, first(a.Key, a.SessionID), who, a,
		func(a *sessions.AdoptArgs, spent time.Duration) {
			a.WaitSeconds = left(a.WaitSeconds, sessions.DefaultWaitSeconds, spent)
		})
}

// Changed implements sessions.API.
func (c *Client) Changed(ctx context.Context, who sessions.Caller, a sessions.ChangedArgs) (sessions.ChangedResult, error) {
	return invoke[sessions.ChangedResult](ctx, c, verbChanged, "", who, a,
		func(a *sessions.ChangedArgs, spent time.Duration) {
			a.WaitSeconds = left(a.WaitSeconds, sessions.DefaultWaitSeconds, spent)
		})
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// left is what remains of a wait after the time spent on earlier attempts, rounded up to whole seconds.
func left(seconds *int, byDefault int, spent time.Duration) *int {
	if seconds == nil {
		seconds = &byDefault
	}
	rest := time.Duration(*seconds)*time.Second - spent
	n := max(0, int((rest+time.Second-1)/time.Second))
	return &n
}

// given is left for a wait whose default is the host's own.
func given(seconds *int, spent time.Duration) *int {
	if seconds == nil {
		return nil
	}
	return left(seconds, 0, spent)
}
