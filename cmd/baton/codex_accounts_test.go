package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonmcp/baton/sessions"
)

// Whose account a session uses. The accounts are made up, and what Codex asks about them is answered on loopback.
var codexAccounts = []codexScenario{
	{"the kind of login is told, and none of its secrets", func(x *codexRun) {
		const secret = "sk-sesame-4713"
		c := x.codexRunner()
		x.want(c.Login == "yes" && c.Capability["login_kind"] == "provider", "with a provider of one's own: %s, %v", c.Login, c.Capability)
		x.account("", nil)
		c = x.codexRunner()
		x.want(c.Login == "no" && c.Capability["login_kind"] == nil, "signed out: %s, %v", c.Login, c.Capability)
		refused(x.f, sessions.CodeNotLoggedIn, "session_create", args{"runner": "codex", "cwd": x.work, "wait_seconds": 45})
		x.account("", args{"OPENAI_API_KEY": secret})
		c = x.codexRunner()
		x.want(c.Login == "yes" && c.Capability["login_kind"] == "apiKey", "with a key: %s, %v", c.Login, c.Capability)
		x.want(len(x.holding(x.path("baton"), secret)) == 0, "the key is in %v", x.holding(x.path("baton"), secret))
		x.config = x.file(filepath.Join(x.home, "config.toml"))
	}},
	{"a login with ChatGPT tells its plan and how much of its limits is used, and nobody's name", func(x *codexRun) {
		back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/accounts/check"): // without it account/read is refused
				fmt.Fprint(w, `{"accounts":[{"id":"account-4716","plan_type":"plus","workspace_backend_origin":"https://127.0.0.1","account_routing_override":"NO_CONSTRAINT"}]}`)
				return
			case !strings.HasSuffix(r.URL.Path, "/usage"):
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, `{"plan_type":"plus","rate_limit":{"allowed":true,"limit_reached":false,
				"primary_window":{"used_percent":42,"limit_window_seconds":18000,"reset_after_seconds":60,"reset_at":%d},
				"secondary_window":{"used_percent":7,"limit_window_seconds":604800,"reset_after_seconds":60,"reset_at":%d}}}`, 1896060144, 1896060144)
		}))
		defer back.Close()
		token := selfMadeToken("ada@example.com", "plus")
		x.account(fmt.Sprintf("chatgpt_base_url = %q\n", back.URL+"/backend-api"), args{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil,
			"last_refresh": time.Now().UTC().Format(time.RFC3339),
			"tokens":       args{"id_token": token, "access_token": token, "refresh_token": "refresh-4715", "account_id": "account-4716"}})
		c := x.codexRunner()
		x.want(c.Login == "yes" && c.Capability["login_kind"] == "chatgpt", "with ChatGPT: %s, %v", c.Login, c.Capability)
		limits, _ := c.Capability["rate_limits"].(map[string]any)
		first, _ := limits["primary"].(map[string]any)
		second, _ := limits["secondary"].(map[string]any)
		x.want(limits["plan"] == "plus" && first["used_percent"] == 42.0 && first["window_minutes"] == 300.0 && first["resets_at"] == "2030-01-31T03:22:24Z" &&
			second["used_percent"] == 7.0, "limits %v", limits)
		for _, private := range []string{"ada@example.com", token, "refresh-4715", "account-4716"} {
			x.want(len(x.holding(x.path("baton"), private)) == 0, "%.20s is in %v", private, x.holding(x.path("baton"), private))
		}
		x.config = x.file(filepath.Join(x.home, "config.toml"))
	}},
	{"a login with Amazon Bedrock is told as such", func(x *codexRun) {
		const secret = "bedrock-sesame-4717"
		x.account("model_provider = \"amazon-bedrock\"\n", nil)
		r := x.raw()
		r.call("account/login/start", args{"type": "amazonBedrock", "apiKey": secret, "region": "us-east-1"}, nil)
		r.end()
		c := x.codexRunner()
		x.want(c.Login == "yes" && c.Capability["login_kind"] == "amazonBedrock" && c.Capability["rate_limits"] == nil, "with Bedrock: %s, %v", c.Login, c.Capability)
		x.want(len(x.holding(x.path("baton"), secret)) == 0, "the key is in %v", x.holding(x.path("baton"), secret))
		x.config = x.file(filepath.Join(x.home, "config.toml"))
	}},
}

// account makes the Codex home one without the mock provider, with what more its configuration says and, where it is given,
// a login.
func (x *codexRun) account(config string, auth args) {
	x.t.Helper()
	err := os.WriteFile(filepath.Join(x.home, "config.toml"), []byte(config+"[features]\nplugins = false\n"), 0o600)
	if err == nil && auth != nil {
		var raw []byte
		if raw, err = json.Marshal(auth); err == nil {
			err = os.WriteFile(filepath.Join(x.home, "auth.json"), raw, 0o600)
		}
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// selfMadeToken is a token as OpenAI gives them out, signed by nobody.
func selfMadeToken(email, plan string) string {
	part := func(v args) string {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and numbers
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(args{"alg": "none", "typ": "JWT"}) + "." + part(args{"email": email, "exp": time.Now().Add(time.Hour).Unix(),
		"https://api.openai.com/auth": args{"chatgpt_plan_type": plan, "chatgpt_account_id": "account-4716", "chatgpt_user_id": "user-1"}}) + ".c2ln"
}

// codexRunner is Codex as runner_list shows it now.
func (x *codexRun) codexRunner() sessions.Runner {
	x.t.Helper()
	for _, r := range call[sessions.RunnerListResult](x.f, "runner_list", args{"refresh": true}).Runners {
		if r.Name == "codex" {
			return r
		}
	}
	x.t.Fatal("there is no codex in runner_list")
	panic("unreachable")
}
