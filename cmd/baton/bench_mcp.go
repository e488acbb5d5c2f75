package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/batonmcp/baton/sessions"
)

const (
	benchSlow   = 130 // calls that are open while others are answered
	benchFlight = 32  // calls in flight
)

// mcp measures `baton mcp` as its client sees it: how soon it answers beside many slow calls, how many calls a second it
// answers beside a bare tool, and how long its start takes.
func (b *bench) mcp(ctx context.Context) (err error) {
	h, err := b.home("mcp")
	if err != nil {
		return err
	}
	if err := b.mcpStarts(ctx, h); err != nil {
		return errors.Join(err, h.end(ctx))
	}
	var ids []string
	defer func() { err = errors.Join(err, h.end(ctx, ids...)) }()
	for range 3 {
		s, err := h.create(ctx, benchCodex)
		if err != nil {
			return err
		}
		ids = append(ids, s.SessionID)
	}
	c, err := startBenchMCP(ctx, h, "mcp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := b.mcpRates(ctx, h, c, ids[0]); err != nil {
		return err
	}
	return b.mcpBeside(c, ids[0], ids[1], ids[2])
}

// mcpStarts times the start of a server to its answer of initialize, without a host and with one, and to the first answer
// of a host that it has to start, against the start and the end of a process that does nothing.
func (b *bench) mcpStarts(ctx context.Context, h *benchHome) error {
	nothing, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	took := map[string][]float64{}
	timed := func(name string, do func() error) error {
		began := time.Now()
		err := do()
		took[name] = append(took[name], milliseconds(time.Since(began)))
		return err
	}
	start := func(name string, list bool) error {
		var c *benchMCP
		err := timed(name, func() (err error) {
			if c, err = startBenchMCP(ctx, h, "mcp"); err == nil && list {
				_, err = c.call("session_list", "{}")
			}
			return err
		})
		if c != nil {
			err = errors.Join(err, c.close())
		}
		return err
	}
	floor := func() error { return exec.CommandContext(ctx, nothing).Run() }
	const cold, first, warm = "start to initialize, no host", "start to a list, no host", "start to initialize, a host"
	for range b.pick(5, 1) {
		for range b.pick(6, 1) {
			if err := errors.Join(timed("", floor), start(cold, false)); err != nil {
				return err
			}
		}
		if err := start(first, true); err != nil {
			return err
		}
		for range b.pick(6, 1) {
			if err := errors.Join(timed("", floor), start(warm, false)); err != nil {
				return err
			}
		}
		if err := h.end(ctx); err != nil {
			return err
		}
	}
	for _, name := range []string{cold, warm, first} {
		b.report.add(benchFigure{Case: name, Value: median(took[name]), Floor: median(took[""]), Unit: "ms", Note: "floor: true, start to end"})
	}
	return nil
}

// mcpRates compares calls a second with those of a bare tool, in turn.
func (b *bench) mcpRates(ctx context.Context, h *benchHome, c *benchMCP, session string) (err error) {
	bare, err := startBenchMCP(ctx, h, agentCommand, benchTool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	calls := []struct{ name, tool, arguments string }{
		{"session_list", "session_list", "{}"},
		{"session_wait, settled", "session_wait", `{"session_ids":["` + session + `"]}`},
	}
	for _, flight := range []int{1, benchFlight} {
		ours, floor := map[string][]float64{}, []float64(nil)
		for range b.pick(9, 1) {
			rate, err := bare.rate("nothing", "{}", flight, b.pick(300, 20))
			if err != nil {
				return err
			}
			floor = append(floor, rate)
			for _, x := range calls {
				if rate, err = c.rate(x.tool, x.arguments, flight, b.pick(300, 20)); err != nil {
					return err
				}
				ours[x.name] = append(ours[x.name], rate)
			}
		}
		for _, x := range calls {
			b.report.add(benchFigure{Case: fmt.Sprintf("%s, %d in flight", x.name, flight), Value: median(ours[x.name]), Floor: median(floor), Unit: "/s", atLeast: 0.5,
				Note: "floor: a tool of mcp-go that does nothing"})
		}
	}
	return nil
}

// rate runs calls for some milliseconds, so many at once.
func (c *benchMCP) rate(tool, arguments string, flight, ms int) (float64, error) {
	var all sync.WaitGroup
	counts, errs := make([]int, flight), make([]error, flight)
	began := time.Now()
	end := began.Add(time.Duration(ms) * time.Millisecond)
	for i := range flight {
		all.Go(func() {
			for errs[i] == nil && (counts[i] == 0 || time.Now().Before(end)) {
				_, errs[i] = c.call(tool, arguments)
				counts[i]++
			}
		})
	}
	all.Wait()
	n := 0
	for _, k := range counts {
		n += k
	}
	return float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
}

// mcpBeside makes other calls while many waits are open, and the same calls without them.
func (b *bench) mcpBeside(c *benchMCP, held, other, asks string) error {
	if _, err := c.call("session_send", `{"session_id":"`+held+`","text":"[wait]","command_id":"held"}`); err != nil {
		return err
	}
	took := map[bool]map[string][]float64{}
	for _, beside := range []bool{false, true} {
		took[beside] = map[string][]float64{}
		for range b.pick(20, 1) {
			end, err := c.slow(beside, held)
			if err != nil {
				return err
			}
			for range 20 { // the calls before have begun by then: this is about those that are open
				if _, e := c.call("session_list", "{}"); e != nil {
					err = e
				}
			}
			if err == nil {
				err = c.others(took[beside], b.pick(10, 1), other, asks)
			}
			if err := errors.Join(err, end()); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"ping", "session_list", "session_cancel", "session_respond"} {
		beside, alone := took[true][name], took[false][name]
		b.report.add(benchFigure{Case: name + fmt.Sprintf(" beside %d waits, p50", benchSlow), Value: percentile(beside, 50), Floor: percentile(alone, 50), Unit: "ms", Note: "floor: without them"})
		b.report.add(benchFigure{Case: name + fmt.Sprintf(" beside %d waits, p99", benchSlow), Value: percentile(beside, 99), Unit: "ms", atMost: 100,
			Note: fmt.Sprintf("%.3g ms without them", percentile(alone, 99))})
	}
	_, err := c.call("session_cancel", `{"session_id":"`+held+`"}`)
	return err
}

// slow opens the waits, and returns what ends them. None may have ended before.
func (c *benchMCP) slow(open bool, session string) (end func() error, err error) {
	if !open {
		return func() error { return nil }, nil
	}
	replies := map[string]chan []byte{}
	for range benchSlow {
		id, reply, err := c.begin("tools/call", benchCall("session_wait", `{"session_ids":["`+session+`"],"wait_seconds":45}`))
		if err != nil {
			return nil, err
		}
		replies[id] = reply
	}
	return func() error {
		for id, reply := range replies {
			select {
			case line := <-reply:
				return fmt.Errorf("a wait ended, and there was no news: %.300s", line)
			default:
			}
			if err := c.notify("notifications/cancelled", `{"requestId":"`+id+`"}`); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// others times calls of each kind, so often.
func (c *benchMCP) others(took map[string][]float64, n int, other, asks string) error {
	timed := func(name string, do func() ([]byte, error)) error {
		began := time.Now()
		_, err := do()
		took[name] = append(took[name], milliseconds(time.Since(began)))
		return err
	}
	on := func(session, more string) string { return `{"session_id":"` + session + `"` + more + `}` }
	for range n {
		if err := timed("ping", func() ([]byte, error) { return c.request("ping", "{}") }); err != nil {
			return err
		}
		if err := timed("session_list", func() ([]byte, error) { return c.call("session_list", "{}") }); err != nil {
			return err
		}
		if _, err := c.call("session_send", on(other, `,"text":"[say 1][wait]"`)); err != nil {
			return err
		}
		if err := timed("session_cancel", func() ([]byte, error) { return c.call("session_cancel", on(other, "")) }); err != nil {
			return err
		}
		var sent sessions.SendResult
		if err := c.result("session_send", on(asks, `,"text":"[approve true]","wait_seconds":20`), &sent); err != nil {
			return err
		}
		if len(sent.Session.Requests) != 1 {
			return fmt.Errorf("the agent did not ask: %+v", sent.Command)
		}
		answer := on(asks, `,"request_id":"`+sent.Session.Requests[0].RequestID+`","decision":"approve"`)
		if err := timed("session_respond", func() ([]byte, error) { return c.call("session_respond", answer) }); err != nil {
			return err
		}
		if _, err := c.call("session_wait", `{"session_ids":["`+asks+`"]}`); err != nil {
			return err
		}
	}
	return nil
}
