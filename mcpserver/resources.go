package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/batonmcp/baton/sessions"
	"github.com/mark3labs/mcp-go/mcp"
)

// schemaURI is the resource with what the tool list has no room for.
const schemaURI = "baton://schema"

func (s *Server) addResources(all []tool) {
	r := mcp.NewResource(schemaURI, "schema", mcp.WithMIMEType("application/json"),
		mcp.WithResourceDescription("JSON Schemas of the arguments and the full results of every tool, of errors and of events, and the meaning of every error code."))
	s.mcp.AddResource(r, func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := schemaText(all)
		if err != nil {
			return nil, err
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: schemaURI, MIMEType: "application/json", Text: text}}, nil
	})
}

func schemaText(all []tool) (string, error) {
	type entry struct {
		Arguments *schema `json:"arguments"`
		Result    *schema `json:"result"`
	}
	doc := struct {
		Tools map[string]entry         `json:"tools"`
		Error *schema                  `json:"error"`
		Event *schema                  `json:"event"`
		Codes map[sessions.Code]string `json:"codes"`
	}{map[string]entry{}, resultSchema[sessions.Error](), resultSchema[sessions.Event](), map[sessions.Code]string{}}
	for _, t := range all {
		doc.Tools[t.name] = entry{t.input, t.result}
	}
	for _, c := range sessions.Codes() {
		doc.Codes[c] = c.Meaning()
	}
	text, err := json.Marshal(doc)
	return string(text), err
}
