package main

import (
	"os/exec"
	"path/filepath"

	"github.com/batonmcp/baton/sessions"
)

// What a command may write, tried.
var codexSandboxes = []codexScenario{
	{"read-only writes nowhere", func(x *codexRun) {
		out := x.outside()
		s := x.create(args{"sandbox": sessions.SandboxReadOnly, "approval_policy": "never"})
		x.want(s.Selections.Evidence.Sandbox == sessions.SandboxReadOnly, "evidence %+v", s.Selections.Evidence)
		x.send(s.SessionID, "c", "[shell touch inside; touch "+out+"/f; cat /etc/hostname] [text over]", sessions.CommandCompleted)
		x.missing("inside", out+"/f")
		x.want(len(x.tools(s.SessionID, "c")) == 1, "no command ran")
	}},
	{"workspace-write writes in the workspace and not outside", func(x *codexRun) {
		out := x.outside()
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[shell touch inside; touch "+out+"/f; touch "+x.home+"/f] [text over]", sessions.CommandCompleted)
		x.there("inside")
		x.missing(out + "/f")
	}},
	{"full access writes anywhere, but not where Baton keeps its own", func(x *codexRun) {
		out := x.outside()
		s := x.create(args{"sandbox": sessions.SandboxFullAccess, "approval_policy": "never"})
		x.want(s.Selections.Evidence.Sandbox == sessions.SandboxFullAccess, "evidence %+v", s.Selections.Evidence)
		x.send(s.SessionID, "c", "[shell touch inside "+out+"/f; touch "+x.path("baton/state/planted")+"] [text over]", sessions.CommandCompleted)
		x.there("inside", out+"/f")
		if s.Containment.Rung == "pid_namespace" {
			x.missing(x.path("baton/state/planted"))
		}
	}},
	{"writable roots are written, and nothing beside them", func(x *codexRun) {
		in, out := x.outside(), x.outside()
		s := x.create(args{"approval_policy": "never", "writable_roots": []string{in}})
		x.send(s.SessionID, "c", "[shell touch inside "+in+"/f; touch "+out+"/f] [text over]", sessions.CommandCompleted)
		x.there("inside", in+"/f")
		x.missing(out + "/f")
	}},
	{"a git directory is written only as a writable root", func(x *codexRun) {
		for _, argv := range [][]string{{"init", "-q", x.work}, {"-C", x.work, "config", "user.email", "a@b"}, {"-C", x.work, "config", "user.name", "a"}} {
			if out, err := exec.Command("git", argv...).CombinedOutput(); err != nil {
				x.t.Fatalf("git %v: %v: %s", argv, err, out)
			}
		}
		const commit = "[shell touch f; git add f; git commit -q -m one] [text over]"
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", commit, sessions.CommandCompleted)
		x.want(x.commits() == 0, "%d commits without the root", x.commits())
		x.closed(s)
		s = x.create(args{"approval_policy": "never", "writable_roots": []string{x.here(".git")}})
		x.send(s.SessionID, "d", commit, sessions.CommandCompleted)
		x.want(x.commits() == 1, "%d commits with it", x.commits())
	}},
	// Codex protects the directory that the worktree's .git file names even below a writable root, unless it is one itself.
	{"a linked worktree is committed in where its two git directories are writable roots", func(x *codexRun) {
		main, tree := x.path("main"), x.path("tree")
		for _, argv := range [][]string{{"init", "-q", main}, {"-C", main, "config", "user.email", "a@b"}, {"-C", main, "config", "user.name", "a"},
			{"-C", main, "commit", "-q", "--allow-empty", "-m", "zero"}, {"-C", main, "worktree", "add", "-q", "-b", "side", tree}} {
			if out, err := exec.Command("git", argv...).CombinedOutput(); err != nil {
				x.t.Fatalf("git %v: %v: %s", argv, err, out)
			}
		}
		s := x.create(args{"cwd": tree, "approval_policy": "never", "writable_roots": []string{filepath.Join(main, ".git"), filepath.Join(main, ".git/worktrees/tree")}})
		x.send(s.SessionID, "c", "[shell touch f; git add f; git commit -q -m one] [text over]", sessions.CommandCompleted)
		out, err := exec.Command("git", "-C", main, "log", "--format=%s", "side").Output()
		x.want(err == nil && string(out) == "one\nzero\n", "the branch has %q, %v: %s", out, err, x.output())
		x.want(s.Selections.Evidence.Sandbox == sessions.SandboxWorkspaceWrite, "evidence %+v", s.Selections.Evidence)
	}},
	{"what never may be asked for is not asked for", func(x *codexRun) {
		out := x.outside()
		s := x.create(args{"approval_policy": "never"})
		x.send(s.SessionID, "c", "[shellesc touch "+out+"/f] [text over]", sessions.CommandCompleted)
		x.missing(out + "/f")
		for _, e := range x.f.events(s.SessionID) {
			x.want(e.Kind != sessions.EventApprovalRequested, "asked: %+v", e.Request)
		}
	}},
}

// commits counts those of the workspace.
func (x *codexRun) commits() (n int) {
	out, err := exec.Command("git", "-C", x.work, "log", "--format=%H").Output()
	if err != nil {
		return 0 // none yet
	}
	for _, b := range out {
		if b == '\n' {
			n++
		}
	}
	return n
}
