package mcpserver

import "github.com/batonmcp/baton/sessions"

// tools is the default set; clients get it sorted by name. A description begins with the words that an
// assistant would search for, since hosts hide tools until they are searched.
func tools() []tool {
	return []tool{
		define(about{"runner_list", "List coding agents", `List coding agents installed on this machine (Codex, Cursor, other ACP agents): version, login, models, modes, and what is wrong with those that cannot be used. Call it before session_create to choose runner and model.`, true, false},
			binding[sessions.RunnerListArgs, sessions.RunnerListResult]{
				call: sessions.API.RunnerList, text: runnersText,
			}),
		define(about{"session_create", "Start an agent session", `Start, launch, spawn or delegate to a coding agent (Codex, Cursor, ACP): creates a session that outlives this conversation. Model, effort, mode and sandbox are confirmed with the agent before any prompt, or the call fails. With prompt the first command is sent as well. A result in state starting is normal: session_wait for it. Then session_send.`, false, false},
			binding[sessions.CreateArgs, sessions.CreateResult]{
				call: sessions.API.Create, text: createText,
				key: func(a *sessions.CreateArgs) *string {
					if a.Key == "" {
						a.Key = a.SessionID // reserving an id is naming the creation
					}
					return &a.Key
				},
				wait:  func(a *sessions.CreateArgs) **int { return &a.WaitSeconds },
				waits: func(a *sessions.CreateArgs) bool { return waits(a.WaitSeconds, sessions.DefaultWaitSeconds) },
				asks:  func(r sessions.CreateResult) []sessions.Session { return []sessions.Session{r.Session} },
			}),
		define(about{"session_send", "Send a prompt", `Send a prompt, task, message or follow-up to a coding agent session. Returns at once by default; the turn goes on by itself: call session_wait for its end. Choose a command_id and repeat it when you are unsure whether a call arrived: it never runs twice. A busy session refuses unless when_busy is queue or steer.`, false, false},
			binding[sessions.SendArgs, sessions.SendResult]{
				call: sessions.API.Send, text: sendText,
				key:   func(a *sessions.SendArgs) *string { return &a.CommandID },
				wait:  func(a *sessions.SendArgs) **int { return &a.WaitSeconds },
				waits: func(a *sessions.SendArgs) bool { return waits(a.WaitSeconds, 0) },
				asks:  func(r sessions.SendResult) []sessions.Session { return []sessions.Session{r.Session} },
			}),
		define(about{"session_wait", "Wait for agents", `Wait for coding agents to finish or to ask something; poll, watch or get the result of sessions. Returns when any of them is settled or needs input, with its final text and a cursor. On timed_out call it again with the cursors as after. On needs_input answer with session_respond. Waiting never affects the work.`, true, false},
			binding[sessions.WaitArgs, sessions.WaitResult]{
				call: sessions.API.Wait, text: waitText,
				wait: func(a *sessions.WaitArgs) **int { return &a.WaitSeconds },
				waits: func(a *sessions.WaitArgs) bool {
					return a.Until != "event" && waits(a.WaitSeconds, sessions.DefaultWaitSeconds)
				},
				asks: func(r sessions.WaitResult) (all []sessions.Session) {
					for _, w := range r.Sessions {
						all = append(all, w.Session)
					}
					return all
				},
			}),
		define(about{"session_read", "Read events", `Read the log, output, history, transcript, tool calls and diffs of a coding agent session: its numbered events, page by page from a cursor, without gaps.`, true, false},
			binding[sessions.ReadArgs, sessions.ReadResult]{call: sessions.API.Read, text: readText}),
		define(about{"session_respond", "Answer an agent", `Respond to, approve, deny or answer a request of a coding agent: a permission, approval or question from the requests of a session. Give exactly one of decision, option_id, answers and form. approve allows this one operation; anything wider is chosen by option_id or scope. Do not approve for your user what your user has not allowed.`, false, false},
			binding[sessions.RespondArgs, sessions.RespondResult]{
				call: sessions.API.Respond, text: respondText,
				key: func(a *sessions.RespondArgs) *string { return &a.Key },
			}),
		define(about{"session_cancel", "Cancel a turn", `Cancel, interrupt, stop or abort the running turn or a queued command of a coding agent; the session stays usable. An id that does not exist yet is fenced: it can never start.`, false, false},
			binding[sessions.CancelArgs, sessions.CancelResult]{
				call: sessions.API.Cancel, text: cancelText,
				key: func(a *sessions.CancelArgs) *string { return &a.Key },
			}),
		define(about{"session_close", "Close a session", `Close, end, kill, shut down or delete a coding agent session: its agent and all its processes are stopped, and stopped says whether that is proven. It can be resumed later, unless delete forgets it for good.`, false, true},
			binding[sessions.CloseArgs, sessions.CloseResult]{
				call: sessions.API.Close, text: closeText,
				key:  func(a *sessions.CloseArgs) *string { return &a.Key },
				wait: func(a *sessions.CloseArgs) **int { return &a.WaitSeconds },
			}),
		define(about{"session_resume", "Resume a session", `Resume, reopen, restart, recover or continue a closed or failed coding agent session with its history, under the same id. Also frees a session from a command whose outcome is unknown (acknowledge_unknown).`, false, false},
			binding[sessions.ResumeArgs, sessions.ResumeResult]{
				call: sessions.API.Resume, text: resumeText,
				key:  func(a *sessions.ResumeArgs) *string { return &a.Key },
				wait: func(a *sessions.ResumeArgs) **int { return &a.WaitSeconds },
			}),
		define(about{"session_list", "List sessions", `List, find or show coding agent sessions and their status: which run, wait for input, or can be resumed.`, true, false},
			binding[sessions.ListArgs, sessions.ListResult]{call: sessions.API.List, text: listText}),
	}
}

// waits tells whether a call waits, where otherwise is what it does without saying so.
func waits(seconds *int, otherwise int) bool {
	if seconds == nil {
		return otherwise > 0
	}
	return *seconds > 0
}
