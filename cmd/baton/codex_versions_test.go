package main

import (
	"os"
	"strings"
	"testing"

	"github.com/batonmcp/baton/sessions"
)

// codexVersions are the older versions that are held to the table, whose native programs the variables name.
var codexVersions = []struct {
	name, variable string
	refused        bool // by name, before anything else
	limit          func(*codexRun)
	limits         map[string]string // scenarios that cannot be as in the newest version, and why
}{
	{name: "0.154.0", variable: "BATON_TEST_CODEX_0_154", limit: func(*codexRun) {}},
	{name: "0.125.0", variable: "BATON_TEST_CODEX_0_125", limit: func(x *codexRun) { x.trust, x.fixed, x.unprofiled = true, true, true }, limits: map[string]string{
		"a command's exit status and output are told, and the file is there":                            "it loses what a quick command says, now and then",
		"a plan is told whole, as a plan":                                                               "it has no mode that could be confirmed",
		"a question is answered in the user's own words":                                                "it has no mode that could be confirmed",
		"plan mode comes and goes with a send":                                                          "it has no mode that could be confirmed",
		"a resume asks for other settings and gets them":                                                "it has no mode that could be confirmed",
		"model and effort of one send hold from then on, and the session shows it":                      "a change of a thread cannot be confirmed",
		"a resume without a model has the one that was asked for last":                                  "a change of a thread cannot be confirmed",
		"a provider that is not there is waited for until the deadline":                                 "it gives up by itself",
		"a conversation that another Codex has open is refused by that name, and taken when it is free": "it lets two processes write one conversation",
		"turns for a goal are told as nobody's, and so is what becomes of it":                           "its models cannot set goals",
		"a cancel ends the turn of a goal, and the goal begins no other":                                "its models cannot set goals",
		"a cancel of the turn that set a goal stops the goal":                                           "its models cannot set goals",
		"the budget of a goal ends it, and says so":                                                     "its models cannot set goals",
		"the budget of a session ends what a goal goes on with":                                         "its models cannot set goals",
		"a resume goes on with a goal only when that is asked for":                                      "its models cannot set goals",
		"a Codex that is killed in the turn of a goal begins no other":                                  "its models cannot set goals",
		"what a model in code mode does is told as any other model's":                                   "it has no code mode",
		"two commands of one script ask at once, each for itself":                                       "it has no code mode",
		"a script that would not end is interrupted, and the next one runs":                             "it has no code mode",
		"a sub-agent of a model in code mode is told as its own, and asks for itself":                   "it has no code mode",
		"a read-only session with roots holds for patches, sub-agents, other models and plans":          "it has no such session",
		"what a read-only session may not write it asks for, and one approval is one command":           "it has no such session",
		"a read-only session has the network for its commands where that is asked for, with roots too":  "it has no such session",
		"an MCP server that its launcher starts in the middle of a turn outlives its cancel":            "its turns wait for the servers",
		"a login with Amazon Bedrock is told as such":                                                   "it has no such login",
	}},
	{name: "0.77.0", variable: "BATON_TEST_CODEX_0_77", refused: true},
}

// TestCodexVersions plays the table with older versions, with BATON_FULL=1.
func TestCodexVersions(t *testing.T) {
	if os.Getenv("BATON_FULL") == "" {
		t.Skip("SKIPPED, NOT TESTED: older versions of Codex, without BATON_FULL=1")
	}
	known := map[string]bool{}
	for _, s := range codexScenarios() {
		known[s.name] = true
	}
	for _, v := range codexVersions {
		t.Run(v.name, func(t *testing.T) {
			binary := os.Getenv(v.variable)
			if binary == "" {
				t.Skipf("SKIPPED, NOT TESTED: %s names no Codex %s; .ci/agents codex-matrix installs one", v.variable, v.name)
			}
			if v.refused {
				x := newCodexRun(t, binary)
				defer x.f.close()
				e := refused(x.f, sessions.CodeUnsupported, "session_create", args{"runner": "codex", "cwd": x.work, "wait_seconds": 45})
				x.want(strings.Contains(e.Message, v.name) && strings.Contains(e.Action, "0.125"), "the refusal is %+v", e)
				x.want(len(x.mock.Requests()) == 0, "the provider was sent %d requests", len(x.mock.Requests()))
				x.unchanged()
				return
			}
			for name := range v.limits {
				if !known[name] {
					t.Errorf("there is no scenario %q", name)
				}
			}
			for _, s := range codexScenarios() {
				if why := v.limits[s.name]; why != "" {
					t.Logf("limit of %s: %s: %s", v.name, s.name, why)
					continue
				}
				t.Run(s.name, func(t *testing.T) { playCodex(t, binary, s, v.limit) })
			}
		})
	}
}
