// Package httpd lets MCP clients reach Baton over streamable HTTP.
//
// It is a wall, unlike everything that is local: a request without the secret of a token is answered with nothing but
// its refusal; each token has a principal of its own unless its maker said otherwise, an MCP server of its own, and the
// folders in which its sessions may work. A page of another origin, a wrong Host header, a body beyond the limit and a
// client that sends slowly are refused before anything is parsed. Nothing listens unless it was asked for.
//
// What it does not promise: who may approve what an agent asks can let it leave its folder, as a person at the terminal
// could. A token is as strong as the person or program that holds it.
package httpd
