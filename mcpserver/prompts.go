package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// addPrompts offers the three things that people do with Baton most, as prompts that a person picks.
func (s *Server) addPrompts() {
	arg := func(name, about string, required bool) mcp.PromptOption {
		o := []mcp.ArgumentOption{mcp.ArgumentDescription(about)}
		if required {
			o = append(o, mcp.RequiredArgument())
		}
		return mcp.WithArgument(name, o...)
	}
	for _, p := range []struct {
		prompt mcp.Prompt
		text   func(args map[string]string) (string, error)
	}{
		{mcp.NewPrompt("delegate", mcp.WithPromptTitle("Delegate a task to a coding agent"), mcp.WithPromptDescription("Give a task to Codex, Cursor or another coding agent, follow it, and report what it did."),
			arg("task", "what shall be done", true), arg("runner", "codex, cursor, ...; left out: what fits", false), arg("cwd", "the absolute folder it works in; left out: the present project", false)), delegateText},
		{mcp.NewPrompt("review", mcp.WithPromptTitle("Have work reviewed by another agent"), mcp.WithPromptDescription("Let a second coding agent review the changes of a folder, or what a session did, without changing anything."),
			arg("what", "what to review: a folder, a branch, or a session id; left out: the uncommitted changes here", false), arg("runner", "which agent reviews", false)), reviewText},
		{mcp.NewPrompt("handoff", mcp.WithPromptTitle("Hand a session over to another agent"), mcp.WithPromptDescription("Let another agent go on where a session stopped, with what it did and what is left."),
			arg("session_id", "the session to hand over", true), arg("runner", "which agent goes on", false)), handoffText},
	} {
		s.mcp.AddPrompt(p.prompt, func(ctx context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text, err := p.text(r.Params.Arguments)
			if err != nil {
				return nil, refuse(ctx, mcp.INVALID_PARAMS, nil, err)
			}
			return mcp.NewGetPromptResult(p.prompt.Description, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
		})
	}
}

// given is an argument, or what stands for it when it was left out.
func given(args map[string]string, name, otherwise string) string {
	if v := strings.TrimSpace(args[name]); v != "" {
		return v
	}
	return otherwise
}

func delegateText(args map[string]string) (string, error) {
	task := given(args, "task", "")
	if task == "" {
		return "", fmt.Errorf("the prompt delegate needs its argument task")
	}
	return fmt.Sprintf(`Delegate this task to a coding agent through Baton, and report what came of it.

Task:
%s

1. runner_list: take %s, and tell me when it is not installed or not logged in.
2. session_create with cwd %s. Keep the default sandbox and approval policy unless I said otherwise.
3. session_send the task with a command_id of your choosing. Write it so that the agent needs nothing else: goal, limits, how to check the result.
4. session_wait, again and again with the cursor, until it settles. What it asks goes to me: do not approve or answer for me what I have not allowed.
5. Look at what it really did (session_read, the files, the tests) before you call it done. Report the result, what is left, and the session id. Leave the session open.`,
		task, given(args, "runner", "the one that fits the task"), given(args, "cwd", "the folder of the present project")), nil
}

func reviewText(args map[string]string) (string, error) {
	return fmt.Sprintf(`Have this reviewed by a coding agent through Baton: %s.

1. Find the folder to review. For a session id, its cwd is in session_list, and baton://sessions/ID/transcript tells what it did.
2. session_create with runner %s, cwd that folder and sandbox read-only, so that nothing is changed. Where the runner cannot confirm read-only, ask me first.
3. session_send: review the changes for faults, not for taste. For each finding: file and line, what goes wrong, in which case, how sure. Say so when there is none.
4. session_wait until it settles, then check the findings yourself and report those that hold, the worst first. session_close the session.`,
		given(args, "what", "the uncommitted changes of the present project"), given(args, "runner", "one that did not do the work")), nil
}

func handoffText(args map[string]string) (string, error) {
	id := given(args, "session_id", "")
	if id == "" {
		return "", fmt.Errorf("the prompt handoff needs its argument session_id")
	}
	return fmt.Sprintf(`Hand session %s over to another coding agent through Baton.

1. Look at it with session_list and read baton://sessions/%s/transcript (or session_read). If a command runs, ask me whether to wait or to session_cancel it. A command in state unknown may have run: say so in what you hand over.
2. session_close it, and go on only when stopped is confirmed: two agents must not write in one folder.
3. session_create with runner %s and the same cwd.
4. session_send what it needs to go on: the goal, what is done and checked, what is left, what was decided and why, which files matter. No more than that.
5. session_wait, and report the new session id and what it does first.`, id, id, given(args, "runner", "another one that fits")), nil
}
