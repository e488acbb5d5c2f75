package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/batonmcp/baton/internal/failpoint"
)

// victim is what a kill ends.
type victim string

const (
	victimFront  victim = "front"
	victimHost   victim = "host"
	victimBridge victim = "bridge"
	victimAgent  victim = "agent"
)

// kill is one kill -9: at a named point of the program, or some time after the beginning of a step.
type kill struct {
	victim victim
	point  string // name:k
	step   int
	after  time.Duration
}

func (k kill) String() string {
	if k.point != "" {
		return "at " + k.point
	}
	return fmt.Sprintf("%s %v into step %d", k.victim, k.after, k.step)
}

// plan is one case of the crash suite; all of it follows from its seed.
type plan struct {
	seed   uint64
	n      int
	runner string
	steps  []string
	kills  []kill
	// away: with the host dies the front end, and nobody comes back before the bridge has given up waiting.
	away bool
	// company: somebody else works in a session of its own meanwhile.
	company bool
	// shy: every call is made again under the same key now and then, although it was answered.
	shy float64
}

func (p plan) String() string {
	s := fmt.Sprintf("seed %d case %d: %s, %s; kill %v", p.seed, p.n, p.runner, strings.Join(p.steps, " "), p.kills)
	if p.away {
		s += "; nobody comes back"
	}
	if p.company {
		s += "; in company"
	}
	return s
}

// strict tells whether everything has to end as if nobody had been killed.
func (p plan) strict() bool {
	return !slices.ContainsFunc(p.kills, func(k kill) bool { return k.victim == victimBridge || k.victim == victimAgent })
}

// point is a fail point, with the pass up to which a kill there is interesting and what has to happen to get there: a
// step, an earlier kill of the host, or a host that stays away.
type point struct {
	name  string
	upTo  int
	needs string
}

// What a point can need beside a step.
const (
	needsHost = "an earlier kill of the host"
	needsAway = "a host that stays away"
)

// points are the fail points of the program, by the process that they end.
func points() []point {
	return []point{
		{"front.call.before", 12, ""}, {"front.call.after", 12, ""},
		{"host.answer.before", 12, ""}, {"host.answer.after", 12, ""}, {"host.commit.before", 30, ""}, {"host.commit.after", 30, ""},
		{"host.create.durable", 1, ""}, {"host.resume.durable", 1, "close"}, {"host.launch.before", 2, ""}, {"host.launch.started", 2, ""},
		{"host.launch.registered", 2, ""}, {"host.greeted", 2, ""}, {"host.input.before", 8, ""}, {"host.input.after", 8, ""},
		{"host.frames.before", 20, ""}, {"host.frames.durable", 20, ""}, {"host.frames.acked", 20, ""}, {"host.end.proven", 1, "close"},
		{"host.end.before", 1, "close"}, {"host.recover", 1, needsHost},
		{"bridge.hello", 2, needsHost}, {"bridge.input.read", 8, ""}, {"bridge.input.received", 8, ""}, {"bridge.input.begin", 8, ""},
		{"bridge.input.done", 8, ""}, {"bridge.agent.started", 1, ""}, {"bridge.agent.answered", 1, ""}, {"bridge.opened", 1, ""},
		{"bridge.prompt.before", 5, ""}, {"bridge.prompt.after", 5, ""}, {"bridge.answer.before", 2, "approve"}, {"bridge.answer.after", 2, "ask"},
		{"bridge.event.before", 40, ""}, {"bridge.event.after", 40, ""}, {"bridge.settled", 4, ""}, {"bridge.frames.before", 20, ""},
		{"bridge.frames.after", 20, ""}, {"bridge.shutdown", 1, "close"}, {"bridge.stopped", 1, "close"},
		{"bridge.spill.before", 1, needsAway}, {"bridge.spill.after", 1, needsAway},
	}
}

// steps that a case is made of; steering is for agents that can be steered.
var (
	anySteps   = []string{"send", "stream", "approve", "deny", "ask", "queue", "cancel", "cancel-queued", "close", "fail", "delete"}
	codexSteps = append([]string{"steer", "steer"}, anySteps...)
)

// newPlan makes case n of a seed.
func newPlan(seed uint64, n int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := plan{seed: seed, n: n, runner: "codexlike", shy: 0.25}
	if r.IntN(3) == 0 {
		p.runner = "cursorlike"
	}
	from := codexSteps
	if p.runner == "cursorlike" {
		from = anySteps
	}
	p.steps = []string{"create"}
	if r.IntN(3) == 0 {
		p.steps[0] = "create-prompt"
	}
	for range 2 + r.IntN(4) {
		p.steps = append(p.steps, from[r.IntN(len(from))])
	}
	if n%12 == 11 {
		p.stayAway(r)
		return p
	}
	count := 1
	if r.IntN(8) == 0 {
		count = 2
	}
	for range count {
		if failpoint.Enabled && r.IntN(4) < 3 {
			p.killAt(r, points()[r.IntN(len(points()))])
		} else {
			p.kills = append(p.kills, newKill(r, len(p.steps)))
		}
	}
	p.company = p.strict() && !p.away && r.IntN(3) == 0
	return p
}

// stayAway has the host and the front end die while a turn runs, and nobody come back before the bridge gives up.
func (p *plan) stayAway(r *rand.Rand) {
	p.away = true
	p.steps = []string{"create", "send", "stream"}
	p.kills = []kill{{victim: victimHost, step: 2, after: time.Duration(r.IntN(250)) * time.Millisecond}}
}

// killAt adds a kill at a named point, and what the plan needs to get there.
func (p *plan) killAt(r *rand.Rand, at point) {
	switch at.needs {
	case "":
	case needsAway:
		p.stayAway(r)
	case needsHost:
		p.kills = append(p.kills, kill{victim: victimHost, step: 1, after: time.Duration(r.IntN(50)) * time.Millisecond})
	default:
		p.steps = slices.Insert(p.steps, 1+r.IntN(len(p.steps)), at.needs)
	}
	name, _, _ := strings.Cut(at.name, ".")
	early := r.Float64() // most cases pass a place a few times only
	p.kills = append(p.kills, kill{victim: victim(name), point: fmt.Sprintf("%s:%d", at.name, 1+int(early*early*float64(at.upTo)))})
}

func newKill(r *rand.Rand, steps int) kill {
	v := []victim{victimFront, victimHost, victimHost, victimHost, victimBridge, victimAgent}[r.IntN(6)]
	step, longest := r.IntN(steps), 120
	if step == 0 {
		longest = 400 // it begins with the start of everything
	}
	return kill{victim: v, step: step, after: time.Duration(r.IntN(longest)) * time.Millisecond}
}
