package appserver

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
)

// Prompt writes one command: turn/start, or turn/steer when p.Steer names the running one.
//
// A turn/start into a running turn would steer it: one end for two commands. So none is sent while any turn runs.
func (a *Agent) Prompt(ctx context.Context, p sessions.Prompt) error {
	written := make(chan error, 1)
	reply := func(err error) { written <- err }
	err := a.do(ctx, func() {
		if p.Steer != "" {
			a.steer(ctx, p, reply)
		} else {
			a.prompt(ctx, p, reply)
		}
	})
	if err != nil {
		return notWritten(err)
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
	}
	// Whoever gave up must know whether it was written: what still waits is withdrawn, in the loop.
	if err := a.do(context.WithoutCancel(ctx), func() { a.abandon(p.CommandID, context.Cause(ctx)) }); err != nil {
		return notWritten(err)
	}
	return <-written
}

// abandon withdraws a prompt that has not been written.
func (a *Agent) abandon(command string, why error) {
	t := a.turn
	if t == nil {
		return
	}
	if t.command == command && t.phase == preparing {
		a.drop(t, notWritten(why))
		return
	}
	waiting := t.waiting
	t.waiting = nil
	for _, fn := range waiting { // a steer that still waits finds its context ended
		fn()
	}
}

// drop forgets a turn of which nothing has left.
func (a *Agent) drop(t *turn, err error) {
	if a.turn == t {
		a.turn = nil
	}
	if reply := t.reply; reply != nil {
		t.reply = nil
		reply(err)
	}
	a.wake(t)
}

func (a *Agent) prompt(ctx context.Context, p sessions.Prompt, reply func(error)) {
	want, err := a.mayPrompt(p)
	if err != nil {
		reply(notWritten(err))
		return
	}
	t := &turn{command: p.CommandID, reply: reply}
	a.turn = t
	if p.Model == "" && p.Effort == "" && p.Mode == "" {
		a.start(ctx, t, p)
		return
	}
	if p.Model != "" {
		a.sel.rerouted, a.sel.missing = "", "" // somebody looked at it and asks again
	}
	err = a.changeSettings(ctx, want, func(err error) {
		if err == nil { // also when its command was cancelled or abandoned meanwhile: the thread has it now
			a.sel.drift = nil
			a.emit(sessions.Event{Kind: sessions.EventSelectionConfirm, Command: t.command, Selection: a.sel.pair()})
		}
		switch {
		case a.turn != t || t.phase != preparing:
		case err != nil:
			a.drop(t, notWritten(asError(err)))
		default:
			a.start(ctx, t, p)
		}
	})
	if err != nil {
		a.drop(t, err)
	}
}

// mayPrompt refuses what must not be sent, and returns what is asked of the thread from this prompt on.
func (a *Agent) mayPrompt(p sessions.Prompt) (sessions.Selection, error) {
	want := a.sel.asked
	switch {
	case p.CommandID == "":
		return want, sessions.Errorf(sessions.CodeInvalidParams, "a command needs an id").Do("name it")
	case !a.opened:
		return want, sessions.Errorf(sessions.CodeNotRunning, "the session is not open").Do("wait until it is idle")
	case a.gone != nil:
		return want, a.gone
	case a.turn != nil && a.turn.phase == ended:
		return want, sessions.Errorf(sessions.CodeBusy, "what command %s left behind is still being stopped", a.turn.command).Do("wait for it to settle")
	case a.turn != nil:
		return want, sessions.Errorf(sessions.CodeBusy, "command %s is running", a.turn.command).Do("wait for it, steer it or cancel it")
	case a.foreign != nil:
		return want, errForeign
	case a.sel.change != nil:
		return want, sessions.Errorf(sessions.CodeBusy, "the thread's settings are being changed").Do("try again in a moment")
	}
	if err := checkNames(sessions.Selection{Mode: p.Mode}); err != nil {
		return want, err
	}
	if err := a.budgetError(); err != nil {
		return want, err
	}
	for _, f := range []struct{ field, given *string }{{&want.Model, &p.Model}, {&want.Effort, &p.Effort}, {&want.Mode, &p.Mode}} {
		if *f.given != "" {
			*f.field = *f.given
		}
	}
	if p.Model != "" || p.Effort != "" {
		if err := a.models.check(want.Model, want.Effort, a.sel.settings.Model); err != nil {
			return want, err
		}
	}
	if m := a.models.find(cmp.Or(p.Model, a.sel.settings.Model)); m != nil && len(p.Images) > 0 && !m.takesImages() {
		return want, sessions.Errorf(sessions.CodeUnsupported, "model %q takes no images", m.ID).Do("leave images out, or choose another model")
	}
	if a.sel.drift != nil && p.Model == "" && p.Effort == "" && p.Mode == "" {
		return want, sessions.AsError(a.sel.drift).Do("send with model, effort or mode to ask for it again, or resume the session")
	}
	return want, nil
}

var errForeign = sessions.Errorf(sessions.CodeBusy, "a turn that Codex began by itself is running").Do("wait for it to end, or cancel it")

// start writes turn/start.
func (a *Agent) start(ctx context.Context, t *turn, p sessions.Prompt) {
	if a.foreign != nil { // begun while the settings were being changed
		a.drop(t, notWritten(errForeign))
		return
	}
	t.phase = submitted
	a.usage.begin()
	a.turnBegins()
	err := a.call(ctx, "turn/start", a.turnStart(p), func(raw json.RawMessage, err error) { a.startAnswered(t, raw, err) })
	if err != nil {
		a.turnOver()
		a.drop(t, err)
		return
	}
	reply := t.reply
	t.reply = nil
	reply(nil)
}

func (a *Agent) turnStart(p sessions.Prompt) turnStartParams {
	input := []userInput{textInput(p.Text)}
	for _, path := range p.Images {
		input = append(input, imageInput(path))
	}
	return turnStartParams{ThreadID: a.root, ClientMessageID: p.CommandID, Input: input}
}
