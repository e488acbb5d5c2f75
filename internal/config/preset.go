package config

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/batonmcp/baton/sessions"
)

// preset is a runner that needs no configuration.
type preset struct {
	Protocol string
	program  string
	args     []string
	install  string
	// wanted runners are shown where they are not installed, too.
	wanted bool
	// pass are the variables of the caller's environment that this agent gets beside those that every agent gets: where
	// it keeps its things, its provider and its keys.
	pass []string
	// env is what it gets in any case.
	env map[string]string
	// flags are what of a session the agent takes on its command line; nil: nothing.
	flags func(*launch)
	// append puts them behind the arguments of the preset, and not before.
	append bool
	// enforces are the sandboxes that the agent has of its own and reports, so that it needs none around it.
	enforces []string
}

var builtin = map[string]preset{
	"codex": {Protocol: AppServer, program: "codex", args: []string{"app-server"}, wanted: true,
		install: "install Codex (npm install -g @openai/codex)"},
	"cursor": {Protocol: ACP, program: "cursor-agent", args: []string{"acp"}, wanted: true, flags: cursorFlags,
		env:     map[string]string{"NO_OPEN_BROWSER": "1"}, // a login is a person's to do, in a terminal
		install: "install the Cursor CLI (curl https://cursor.com/install -fsS | bash)"},
	"opencode": {Protocol: ACP, program: "opencode", args: []string{"acp"},
		install: "install opencode (npm install -g opencode-ai)",
		pass: append([]string{"OPENCODE_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_AUTOUPDATE",
			"OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_MODELS_URL", "OPENCODE_PERMISSION"}, providerKeys...)},
	"gemini": {Protocol: ACP, program: "gemini", args: []string{"--acp"}, flags: geminiFlags, append: true,
		env:     map[string]string{"NO_BROWSER": "1"},
		install: "install Gemini CLI (npm install -g @google/gemini-cli)",
		pass: []string{"GEMINI_API_KEY", "GEMINI_CLI_HOME", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_MODEL", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
			"GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_VERTEX_BASE_URL"}},
	"qwen": {Protocol: ACP, program: "qwen", args: []string{"--acp"},
		install: "install Qwen Code (npm install -g @qwen-code/qwen-code)",
		pass:    []string{"DASHSCOPE_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}},
	"claude": {Protocol: ACP, program: "claude-agent-acp",
		install: "install the ACP adapter of Claude Code (npm install -g @agentclientprotocol/claude-agent-acp)",
		pass: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
			"ANTHROPIC_CUSTOM_MODEL_OPTION", "ANTHROPIC_MODEL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_PROJECT_ID", "AWS_PROFILE", "AWS_REGION",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_EXECUTABLE", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
			"CLAUDE_CODE_USE_VERTEX", "CLAUDE_CONFIG_DIR", "CLOUD_ML_REGION", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "IS_SANDBOX", "MAX_THINKING_TOKENS"}},
	"codex-acp": {Protocol: ACP, program: "codex-acp",
		install:  "install the ACP adapter of Codex (npm install -g @agentclientprotocol/codex-acp)",
		pass:     []string{"CODEX_CONFIG", "CODEX_PATH", "MODEL_PROVIDER"},
		env:      map[string]string{"NO_BROWSER": "1"},
		enforces: []string{sessions.SandboxReadOnly, sessions.SandboxWorkspaceWrite, sessions.SandboxFullAccess}},
}

// providerKeys are those of the providers that opencode knows by a key in the environment.
var providerKeys = []string{"ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY",
	"OPENROUTER_API_KEY", "XAI_API_KEY"}

// Passed lists the variables that some runner gets beside those that every runner gets. A front end sends them along.
func Passed() []string {
	names := map[string]bool{}
	for _, p := range builtin {
		for _, n := range p.pass {
			names[n] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Shown lists the runners that a user wants to see: those that are wanted or configured, and whatever of the others is
// installed.
func (c *Config) Shown(getenv func(string) string) []string {
	return slices.DeleteFunc(c.Names(), func(name string) bool {
		own, known := builtin[name]
		if _, configured := c.Runners[name]; !known || own.wanted || configured || getenv(Variable(name)) != "" {
			return false
		}
		_, err := c.Resolve(name, "/", getenv)
		return sessions.CodeOf(err) == sessions.CodeRunnerMissing
	})
}

// Enforces tells whether an agent has a sandbox of its own that it reports.
func Enforces(name, sandbox string) bool { return slices.Contains(builtin[name].enforces, sandbox) }

// SameAgent tells whether two runners are, or may be, one agent under two names, with one record of its conversations: of
// the same name, with the same command, or whatever speaks for Codex. Of a name that is no longer there nobody knows.
func (c *Config) SameAgent(a, b string) bool {
	x, known := c.agent(a)
	y, other := c.agent(b)
	return a == b || !known || !other || slices.Equal(x, y)
}

// agent is what a runner is by its command, wherever its program lies.
func (c *Config) agent(name string) (command []string, known bool) {
	p, known := builtin[name]
	custom, configured := c.Runners[name]
	protocol := p.Protocol
	if custom.Protocol != "" {
		protocol = custom.Protocol
	}
	command = append([]string{p.program}, p.args...)
	if len(custom.Command) > 0 {
		command = append([]string{filepath.Base(custom.Command[0])}, custom.Command[1:]...)
	}
	if protocol == AppServer || command[0] == "codex-acp" {
		command = []string{"codex"}
	}
	return command, known || configured
}
