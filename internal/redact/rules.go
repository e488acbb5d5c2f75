package redact

// rule is the form of a well-known credential: a prefix that does not follow a letter or digit, and a run of at least so
// many characters of a class. The run is redacted to its end.
type rule struct {
	prefix string
	least  int
	class  *[256]bool
}

var (
	alnum  = class("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
	upper  = class("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	dashed = class("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
	dotted = class("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
	block  = class("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\r\n \t")
)

func class(of string) *[256]bool {
	var c [256]bool
	for i := range len(of) {
		c[of[i]] = true
	}
	return &c
}

// rules are few and long, so that no ordinary word meets one. Lengths are the shortest that the issuers have given out.
var rules = []rule{
	{"sk-", 32, dashed},         // OpenAI, Anthropic, OpenRouter
	{"ghp_", 36, alnum},         // GitHub: personal, OAuth, user, server, refresh
	{"gho_", 36, alnum},         //
	{"ghu_", 36, alnum},         //
	{"ghs_", 36, alnum},         //
	{"ghr_", 36, alnum},         //
	{"github_pat_", 40, dashed}, // GitHub, fine-grained
	{"glpat-", 20, dashed},      // GitLab
	{"xoxb-", 20, dashed},       // Slack: bot, user, app, refresh
	{"xoxp-", 20, dashed},       //
	{"xapp-", 20, dashed},       //
	{"xoxe-", 20, dashed},       //
	{"AKIA", 16, upper},         // AWS key ids
	{"ASIA", 16, upper},         //
	{"AIza", 35, dashed},        // Google
	{"npm_", 36, alnum},         // npm
	{"pypi-", 50, dashed},       // PyPI
	{"hf_", 34, alnum},          // Hugging Face
	{"eyJhbGciOi", 40, dotted},  // JSON web tokens: {"alg":
	{"PRIVATE KEY-----", 64, block},
}

// begins tells whether a prefix may begin after a byte; first: there is none.
func begins(before byte, first bool) bool { return first || !alnum[before] }

// holds tells whether the rule's credential is in a text, its prefix ending before end, whatever stands before it.
func (r *rule) holds(text []byte, end int) bool {
	if len(text)-end < r.least {
		return false
	}
	for _, b := range text[end : end+r.least] {
		if !r.class[b] {
			return false
		}
	}
	return true
}
