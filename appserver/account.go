package appserver

import (
	"context"
	"time"
)

// login tells "yes", "no" or "unknown". A provider of the user's own needs no account.
func (a *Agent) login(ctx context.Context) (string, error) {
	login, _, err := a.account(ctx)
	return login, err
}

// kindProvider is the login of a provider of the user's own, which needs no account.
const kindProvider = "provider"

// account tells also the kind of login: apiKey, chatgpt, amazonBedrock or gcp, as Codex names them.
func (a *Agent) account(ctx context.Context) (login, kind string, err error) {
	var r accountResult
	err = a.ask(ctx, "account/read", map[string]any{"refreshToken": false}, &r)
	switch {
	case refused(err) != nil:
		return "unknown", "", nil
	case err != nil:
		return "", "", err
	case r.Account != nil:
		return "yes", r.Account.Type, nil
	case r.RequiresOpenaiAuth:
		return "no", "", nil
	}
	return "yes", kindProvider, nil
}

// rateLimits is how much of its limits an account has used, nil where it has none or they cannot be told. Codex asks
// the provider for them, so that it may take a while.
func (a *Agent) rateLimits(ctx context.Context, kind string) map[string]any {
	if kind != "chatgpt" { // 0.171.0 refuses to ask for the others
		return nil
	}
	const patience = 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	type window struct {
		Used     int    `json:"usedPercent"`
		ResetsAt *int64 `json:"resetsAt"` // seconds of the epoch
		Minutes  *int64 `json:"windowDurationMins"`
	}
	var r struct {
		Limits struct {
			Plan      string  `json:"planType"`
			Reached   string  `json:"rateLimitReachedType"`
			Primary   *window `json:"primary"`
			Secondary *window `json:"secondary"`
		} `json:"rateLimits"`
	}
	if err := a.ask(ctx, "account/rateLimits/read", struct{}{}, &r); err != nil {
		a.o.Logger.Debug().Err(err).Msg("the account's limits")
		return nil
	}
	limits := map[string]any{}
	for name, value := range map[string]string{"plan": r.Limits.Plan, "reached": r.Limits.Reached} {
		if value != "" {
			limits[name] = value
		}
	}
	for name, w := range map[string]*window{"primary": r.Limits.Primary, "secondary": r.Limits.Secondary} {
		if w == nil {
			continue
		}
		told := map[string]any{"used_percent": w.Used}
		if w.ResetsAt != nil {
			told["resets_at"] = time.Unix(*w.ResetsAt, 0).UTC().Format(time.RFC3339)
		}
		if w.Minutes != nil {
			told["window_minutes"] = *w.Minutes
		}
		limits[name] = told
	}
	return limits
}
