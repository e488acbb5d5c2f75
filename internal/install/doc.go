// Package install puts Baton into the configuration of MCP hosts, and takes it out again.
//
// A configuration belongs to its user, so that is what it promises: every byte outside of Baton's own entry stays as it
// is, comments, order, line ends and byte order mark included; what a user added to the entry stays too. A file that
// cannot be read for certain (a syntax error, a name that stands twice, a value of another kind) is left alone, with an
// error that says where. Before a file is changed its old content lies beside it, and the change is checked: read again,
// the new text must say what the old one said, and the entry. The file is replaced in one step, keeps its mode, and a
// link to it stays a link. Doing it twice changes nothing; undoing it gives the old bytes back where nothing else was
// changed in between.
//
// It does not lock the file against its host: a host that writes its own configuration at the same moment is noticed up
// to the last step, not in it.
package install
