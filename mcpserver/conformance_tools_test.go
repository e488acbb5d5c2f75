package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// What the conformance suite (@modelcontextprotocol/conformance) expects a server to offer, as its scenarios describe it:
// names, texts and schemas are the suite's. All of it speaks to the client through the connection, the questions and the
// rounds of this package.

// An image and a sound of a few bytes.
const (
	onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	noSound  = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

type handler = func(ctx context.Context, c *session, args map[string]any) (*mcp.CallToolResult, error)

// offerConformance adds everything to a server.
func offerConformance(t *testing.T, s *Server) {
	server.WithCompletions()(s.mcp)
	for _, name := range slices.Sorted(maps.Keys(conformanceTools(s))) {
		h := conformanceTools(s)[name]
		in := `{"type":"object","properties":{}}`
		if x, ok := conformanceSchemas[name]; ok {
			in = x
		}
		s.mcp.AddTool(mcp.NewToolWithRawSchema(name, "For the conformance suite: "+name, json.RawMessage(in)), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			c, ok := server.ClientSessionFromContext(ctx).(*session)
			if !ok {
				t.Errorf("%s is called for %T", name, server.ClientSessionFromContext(ctx))
			}
			return h(ctx, c, r.GetArguments())
		})
	}
	offerConformanceResources(s)
	offerConformancePrompts(s)
	offerConformanceRoundsOfPrompts(s)
}

// conformanceSchemas are those of the tools that take arguments.
var conformanceSchemas = map[string]string{
	"test_sampling":    `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
	"test_elicitation": `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
	"test_x_mcp_header": `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"priority":{"type":"integer","x-mcp-header":"Priority"},` +
		`"verbose":{"type":"boolean","x-mcp-header":"Verbose"},"query":{"type":"string"}},"required":["region"]}`,
	"json_schema_2020_12_tool": `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
}

func conformanceTools(s *Server) map[string]handler {
	says := func(content ...mcp.Content) handler {
		return func(context.Context, *session, map[string]any) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: content}, nil
		}
	}
	embedded := func(uri, kind, text string) mcp.Content {
		return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: kind, Text: text})
	}
	tools := map[string]handler{
		"test_simple_text":       says(mcp.NewTextContent("This is a simple text response for testing.")),
		"test_image_content":     says(mcp.NewImageContent(onePixel, "image/png")),
		"test_audio_content":     says(mcp.NewAudioContent(noSound, "audio/wav")),
		"test_embedded_resource": says(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		"test_multiple_content_types": says(mcp.NewTextContent("Multiple content types test:"), mcp.NewImageContent(onePixel, "image/png"),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
		"json_schema_2020_12_tool": says(mcp.NewTextContent("called")),
		"test_x_mcp_header":        says(mcp.NewTextContent("called")),
		"test_error_handling": func(context.Context, *session, map[string]any) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
		},
		"test_tool_with_logging":  toldInLog,
		"test_tool_with_progress": toldInProgress(s),
		"test_reconnection": func(ctx context.Context, _ *session, _ map[string]any) (*mcp.CallToolResult, error) {
			streamOf(ctx).breakOff()
			return mcp.NewToolResultText("The stream was taken up again."), nil
		},
		"test_sampling": func(ctx context.Context, c *session, args map[string]any) (*mcp.CallToolResult, error) {
			if c.GetClientCapabilities().Sampling == nil {
				return mcp.NewToolResultError("the client has no sampling"), nil
			}
			raw, err := c.Ask(ctx, string(mcp.MethodSamplingCreateMessage), samplingParams(fmt.Sprint(args["prompt"]), 100))
			var r struct{ Content struct{ Text string } }
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			return mcp.NewToolResultText("LLM response: " + r.Content.Text), err
		},
		"test_elicitation": elicits("User response: ", func(args map[string]any) ordered {
			return formParams(fmt.Sprint(args["message"]), ordered{{"username", described("string", "User's response")}, {"email", described("string", "User's email address")}}, []string{"username", "email"})
		}),
		"test_elicitation_sep1034_defaults": elicits("Elicitation completed: ", func(map[string]any) ordered {
			return formParams("Provide your information", ordered{{"name", defaulted("string", "John Doe")}, {"age", defaulted("integer", 30)}, {"score", defaulted("number", 95.5)},
				{"status", append(defaulted("string", "active"), pair{"enum", []string{"active", "inactive", "pending"}})}, {"verified", defaulted("boolean", true)}}, []string{})
		}),
		"test_elicitation_sep1330_enums": elicits("Elicitation completed: ", func(map[string]any) ordered {
			three, titles := []choice{{"value1", "First Option"}, {"value2", "Second Option"}, {"value3", "Third Option"}}, []choice{{"opt1", "Option One"}, {"opt2", "Option Two"}, {"opt3", "Option Three"}}
			plain := ordered{{"type", "string"}, {"enum", []string{"option1", "option2", "option3"}}}
			return formParams("Select options", ordered{{"untitledSingle", plain}, {"titledSingle", choices("One of three", "", three, titledEnums)},
				{"legacyEnum", choices("One of three", "", titles, "2025-06-18")}, {"untitledMulti", ordered{{"type", "array"}, {"items", plain}}},
				{"titledMulti", ordered{{"type", "array"}, {"items", ordered{{"anyOf", titled(three)}}}}}}, []string{})
		}),
	}
	maps.Copy(tools, conformanceRounds(s))
	return tools
}

func described(kind, text string) ordered      { return ordered{{"type", kind}, {"description", text}} }
func defaulted(kind string, value any) ordered { return ordered{{"type", kind}, {"default", value}} }
func samplingParams(text string, most int) ordered {
	return ordered{{"messages", []ordered{{{"role", "user"}, {"content", ordered{{"type", "text"}, {"text", text}}}}}}, {"maxTokens", most}}
}

// toldInLog writes three log messages; since 2026-07-28 only for a client that asked for them.
func toldInLog(ctx context.Context, c *session, _ map[string]any) (*mcp.CallToolResult, error) {
	for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern && info.LogLevel == "" {
			break
		}
		if err := c.Notify(ctx, "notifications/message", ordered{{"level", "info"}, {"logger", "conformance"}, {"data", text}}); err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText("logged"), nil
}

func toldInProgress(s *Server) handler {
	return func(ctx context.Context, c *session, _ map[string]any) (*mcp.CallToolResult, error) {
		m, err := s.meta(ctx)
		for _, n := range []int{0, 50, 100} {
			if err == nil && m.progressToken != nil {
				err = c.Notify(ctx, "notifications/progress", ordered{{"progressToken", m.progressToken}, {"progress", n}, {"total", 100}})
			}
		}
		return mcp.NewToolResultText("done"), err
	}
}

// elicits asks the user of a client of an era in which servers send requests.
func elicits(says string, params func(args map[string]any) ordered) handler {
	return func(ctx context.Context, c *session, args map[string]any) (*mcp.CallToolResult, error) {
		if form, _ := canAsk(c.GetClientCapabilities()); !form {
			return mcp.NewToolResultError("the client has no elicitation"), nil
		}
		raw, err := c.Ask(ctx, string(mcp.MethodElicitationCreate), params(args))
		var r struct {
			Action  string
			Content json.RawMessage
		}
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		return mcp.NewToolResultText(fmt.Sprintf("%saction=%s, content=%s", says, r.Action, r.Content)), err
	}
}

// breakOff ends the connections of a stream, which goes on.
func (s *stream) breakOff() {
	if s == nil || s.id == "" {
		return
	}
	s.put([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"the connection will break"}}`))
	for {
		s.mu.Lock()
		reading, wake := len(s.readers) > 0, s.wake
		if reading {
			s.readers = nil
			s.changed()
		}
		s.mu.Unlock()
		if reading {
			return
		}
		<-wake
	}
}

func offerConformanceResources(s *Server) {
	add := func(uri, name, kind string, contents mcp.ResourceContents) {
		s.mcp.AddResource(mcp.NewResource(uri, name, mcp.WithMIMEType(kind), mcp.WithResourceDescription("For the conformance suite.")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{contents}, nil
			})
	}
	add("test://static-text", "static-text", "text/plain", mcp.TextResourceContents{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."})
	s.fixed = append(s.fixed, "test://watched-resource")
	add("test://watched-resource", "watched-resource", "text/plain", mcp.TextResourceContents{URI: "test://watched-resource", MIMEType: "text/plain", Text: "This never changes."})
	add("test://static-binary", "static-binary", "image/png", mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: onePixel})
	s.mcp.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template", mcp.WithTemplateDescription("For the conformance suite."), mcp.WithTemplateMIMEType("application/json")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":%q}`, id, "Data for ID: "+id)}}, nil
		})
}

func offerConformancePrompts(s *Server) {
	add := func(name string, args []string, messages func(map[string]string) []mcp.Content) {
		o := []mcp.PromptOption{mcp.WithPromptDescription("For the conformance suite.")}
		for _, a := range args {
			o = append(o, mcp.WithArgument(a, mcp.ArgumentDescription("an argument"), mcp.RequiredArgument()))
		}
		s.mcp.AddPrompt(mcp.NewPrompt(name, o...), func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			var all []mcp.PromptMessage
			for _, c := range messages(r.Params.Arguments) {
				all = append(all, mcp.NewPromptMessage(mcp.RoleUser, c))
			}
			return mcp.NewGetPromptResult("", all), nil
		})
	}
	add("test_simple_prompt", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent("This is a simple prompt for testing.")}
	})
	add("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))}
	})
	add("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: a["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}),
			mcp.NewTextContent("Please process the embedded resource above.")}
	})
	add("test_prompt_with_image", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewImageContent(onePixel, "image/png"), mcp.NewTextContent("Please analyze the image above.")}
	})
}
