package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// What the conformance suite expects of tools and prompts that need an answer of the client (2026-07-28). A step is what a
// round asks; the state says which.

// askMember is a form with one member.
func askMember(message, name, kind string) mcp.InputRequest {
	f := &form{params: formParams(message, ordered{{name, ordered{{"type", kind}}}}, []string{name})}
	r, err := f.inputRequest()
	if err != nil {
		panic(err)
	}
	return r
}

func askModel(text string, most int) mcp.InputRequest {
	return mcp.NewSamplingInputRequest(mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}}, MaxTokens: most})
}

// answered tells whether every request has a usable answer.
func answered(asked mcp.InputRequests, given map[string]json.RawMessage) bool {
	for name := range asked {
		var a map[string]json.RawMessage
		if json.Unmarshal(given[name], &a) != nil || a == nil {
			return false
		}
	}
	return true
}

// inSteps asks step by step, with a state where it has to be known which step is answered.
func inSteps(s *Server, stateful bool, says string, steps ...mcp.InputRequests) handler {
	return func(ctx context.Context, _ *session, _ map[string]any) (*mcp.CallToolResult, error) {
		if !inRounds(ctx) {
			return mcp.NewToolResultError("only since 2026-07-28"), nil
		}
		m, err := s.meta(ctx)
		if err != nil {
			return nil, refuse(ctx, mcp.INVALID_PARAMS, nil, err)
		}
		step := len(m.round.Asked)
		if step < len(steps) && answered(steps[step], m.responses) && (!stateful || m.round.RequestID != "") {
			step++
		}
		if step >= len(steps) {
			var given string
			for _, raw := range m.responses {
				given += " " + string(raw)
			}
			return mcp.NewToolResultText(says + given), nil
		}
		state := ""
		if stateful {
			state = roundState{RequestID: fmt.Sprintf("step%d", step+1), Asked: make([]string, step)}.seal(s.who.Principal)
		}
		return inputRequired(state, steps[step]), nil
	}
}

func conformanceRounds(s *Server) map[string]handler {
	name := mcp.InputRequests{"user_name": askMember("What is your name?", "name", "string")}
	lacks := func(ctx context.Context, data map[string]any) (*mcp.CallToolResult, error) {
		return nil, refuse(ctx, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, map[string]any{"requiredCapabilities": data}, fmt.Errorf("the client lacks a capability"))
	}
	return map[string]handler{
		"test_input_required_result_elicitation": inSteps(s, false, "Hello,", name),
		"test_input_required_result_sampling": inSteps(s, false, "The model says", mcp.InputRequests{
			"capital_question": askModel("What is the capital of France?", 100)}),
		"test_input_required_result_list_roots":    inSteps(s, false, "The roots are", mcp.InputRequests{"client_roots": mcp.NewRootsInputRequest()}),
		"test_input_required_result_request_state": inSteps(s, true, "state-ok", mcp.InputRequests{"confirm": askMember("Please confirm", "ok", "boolean")}),
		"test_input_required_result_multiple_inputs": inSteps(s, true, "All of it:", mcp.InputRequests{"user_name": name["user_name"],
			"greeting": askModel("Generate a greeting", 50), "client_roots": mcp.NewRootsInputRequest()}),
		"test_input_required_result_multi_round": inSteps(s, true, "Both steps:", mcp.InputRequests{"step1": askMember("Step 1: What is your name?", "name", "string")},
			mcp.InputRequests{"step2": askMember("Step 2: What is your favorite color?", "color", "string")}),
		"test_input_required_result_tampered_state": inSteps(s, true, "untouched", mcp.InputRequests{"confirm": askMember("Please confirm", "ok", "boolean")}),
		"test_input_required_result_capabilities": func(_ context.Context, c *session, _ map[string]any) (*mcp.CallToolResult, error) {
			ask := mcp.InputRequests{}
			if c.GetClientCapabilities().Sampling != nil {
				ask["model"] = askModel("What is the capital of France?", 100)
			}
			if form, _ := canAsk(c.GetClientCapabilities()); form {
				ask["user"] = name["user_name"]
			}
			return inputRequired("", ask), nil
		},
		"test_streaming_elicitation": func(ctx context.Context, c *session, _ map[string]any) (*mcp.CallToolResult, error) {
			if form, _ := canAsk(c.GetClientCapabilities()); !form {
				return lacks(ctx, map[string]any{"elicitation": map[string]any{}})
			}
			return inputRequired("", name), nil
		},
		"test_missing_capability": func(ctx context.Context, c *session, _ map[string]any) (*mcp.CallToolResult, error) {
			if c.GetClientCapabilities().Sampling == nil {
				return lacks(ctx, map[string]any{"sampling": map[string]any{}})
			}
			return mcp.NewToolResultText("sampling is there"), nil
		},
		"test_logging_tool": toldInLog,
	}
}

// offerConformanceRoundsOfPrompts adds the prompt that asks before it is given.
func offerConformanceRoundsOfPrompts(s *Server) {
	ask := mcp.InputRequests{"user_context": askMember("What context should the prompt use?", "context", "string")}
	s.mcp.AddPrompt(mcp.NewPrompt("test_input_required_result_prompt", mcp.WithPromptDescription("For the conformance suite.")),
		func(ctx context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			m, err := s.meta(ctx)
			if err != nil {
				return nil, refuse(ctx, mcp.INVALID_PARAMS, nil, err)
			}
			if answered(ask, m.responses) {
				return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Use this context: "+string(m.responses["user_context"])))}), nil
			}
			return server.NewInputRequestBuilder("").Elicit("user_context", *ask["user_context"].Elicitation).PromptResult(), nil
		})
}
