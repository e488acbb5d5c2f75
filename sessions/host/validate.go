package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/batonmcp/baton/internal/config"
	"github.com/batonmcp/baton/sessions"
)

// AutoAnswer policies, as asked at create; every answer that one gives names it in its event.
const (
	autoNone         = "none"
	autoApproveEdits = "approve-edits"
	autoApproveAll   = "approve-all"
	autoDenyAll      = "deny-all"
)

func oneOf(name, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return sessions.Errorf(sessions.CodeInvalidParams, "%s %.80q is not known", name, value).Do("use one of: %s", strings.Join(allowed, ", "))
}

// maxLine bounds a short text of the caller's that every view of a session or command repeats: a megabyte of it would be
// in every answer of session_list and session_wait from then on.
const maxLine = 500

// checkLine wants one line of text, of a bounded length. There need not be any.
func checkLine(name, text string) error {
	if len(text) > maxLine {
		return sessions.Errorf(sessions.CodeLimitExceeded, "%s has %d bytes, the limit is %d", name, len(text), maxLine).Do("give a shorter %s", name)
	}
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
		return sessions.Errorf(sessions.CodeInvalidParams, "%s holds the control character %#x", name, text[i]).Do("give %s as one line of plain text", name)
	}
	return nil
}

// named refuses a caller without a name: to the journal that is the host itself, who sees everybody's sessions.
func named(who sessions.Caller) error { return sessions.CheckName("principal", who.Principal) }

// checkKey refuses what is no key; there need not be one.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	return sessions.CheckName("key", key)
}

// checkSettings refuses what is wrong whatever the runner is.
func checkSettings(s *sessions.Settings) error {
	for _, err := range []error{
		checkLine("model", s.Model),
		checkLine("effort", s.Effort),
		oneOf("mode", s.Mode, "default", "plan"),
		oneOf("sandbox", s.Sandbox, sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess),
		oneOf("approval_policy", s.ApprovalPolicy, sessions.ApprovalUntrusted, sessions.ApprovalOnRequest, sessions.ApprovalNever),
		oneOf("auto_answer", s.AutoAnswer, autoNone, autoApproveEdits, autoApproveAll, autoDenyAll),
	} {
		if err != nil {
			return err
		}
	}
	if s.Profile != "" {
		return sessions.Errorf(sessions.CodeUnsupported, "profile %.80q was asked, this version has no account profiles", s.Profile).
			Do("leave profile out; the agent uses the account of the caller's own environment")
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return sessions.Errorf(sessions.CodeInvalidParams, "env holds the name %.40q", name).Do("use names without = and NUL")
		}
	}
	for name, value := range s.Env {
		if strings.ContainsRune(value, 0) {
			return sessions.Errorf(sessions.CodeInvalidParams, "the value of env %s holds a NUL byte", name).Do("use values without NUL")
		}
	}
	return nil
}

// checkDir wants an absolute path of an existing directory.
func checkDir(name, path string) error {
	switch {
	case path == "":
		return sessions.Errorf(sessions.CodeInvalidParams, "%s is missing", name).Do("give the absolute path of an existing directory")
	case strings.ContainsRune(path, 0):
		return sessions.Errorf(sessions.CodeInvalidParams, "%s holds a NUL byte", name).Do("give the absolute path of an existing directory")
	case !filepath.IsAbs(path):
		return sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q is relative", name, path).Do("give an absolute path")
	}
	fi, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q does not exist", name, path).Do("create it, or name another directory")
	case err != nil:
		return sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q cannot be looked at: %w", name, path, err).
			Do("see that you may look into it, or name another directory")
	case !fi.IsDir():
		return sessions.Errorf(sessions.CodeInvalidParams, "%s %.200q is no directory", name, path).Do("name a directory")
	}
	return nil
}

// checkSandbox refuses a sandbox that nobody can enforce for this runner here.
func (h *Host) checkSandbox(cfg *config.Config, protocol, runner, sandboxName string) error {
	can := h.can
	if sandboxName == sessions.SandboxFullAccess {
		if !can.MountNamespace && !cfg.Host.AllowUnconfinedFullAccess {
			return sessions.Errorf(sessions.CodeSandboxUnavailable,
				"danger-full-access was asked, and without a mount namespace an agent could answer its own requests (%s)", strings.Join(can.Reasons, "; ")).
				Do("allow user namespaces on this machine, or set allow_unconfined_full_access = true under [host] in %s", h.o.Places.Config)
		}
		return nil
	}
	if protocol == protocolACP && !h.enforces(true) && !config.Enforces(runner, sandboxName) {
		return sessions.Errorf(sessions.CodeSandboxUnavailable, "sandbox %s was asked, runner %s has none of its own that Baton could confirm, and none can be put around it here (%s)",
			sandboxName, runner, strings.Join(can.Reasons, "; ")).
			Do("see what `baton doctor` says about containment; or ask for sandbox danger-full-access if you trust the agent with everything you can write")
	}
	return nil
}

func checkPrompt(name, text string) error {
	if len(text) > sessions.MaxPromptBytes {
		return sessions.Errorf(sessions.CodeLimitExceeded, "%s has %d bytes, the limit is %d", name, len(text), sessions.MaxPromptBytes).
			Do("put the bulk into a file of the workspace and name it in the prompt")
	}
	if strings.TrimSpace(text) == "" {
		return sessions.Errorf(sessions.CodeInvalidParams, "%s is empty", name).Do("say what the agent shall do")
	}
	return nil
}
