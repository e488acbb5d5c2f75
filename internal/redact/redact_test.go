package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brute is what a Stream must give, by looking for everything everywhere.
func brute(text string, needles []string) string {
	mark := make([]bool, len(text))
	all := func(from, to int) {
		for i := from; i < to; i++ {
			mark[i] = true
		}
	}
	for i := range len(text) {
		for _, w := range needles {
			if strings.HasPrefix(text[i:], w) {
				all(i, i+len(w))
			}
		}
		for _, r := range rules {
			if !strings.HasPrefix(text[i:], r.prefix) || i > 0 && alnum[text[i-1]] {
				continue
			}
			end := i + len(r.prefix)
			for end < len(text) && r.class[text[end]] {
				end++
			}
			if end-i-len(r.prefix) >= r.least {
				all(i, end)
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		if !mark[i] {
			b.WriteByte(text[i])
		} else if i == 0 || !mark[i-1] {
			b.WriteString(Mask)
		}
	}
	return b.String()
}

func random(t *testing.T) *rand.Rand {
	seed := uint64(1)
	if s, err := strconv.ParseUint(os.Getenv("BATON_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("BATON_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func pieces(r *rand.Rand, st *Stream, text string) string {
	var out []byte
	for rest := text; rest != ""; {
		n := 1 + r.IntN(min(len(rest), 1+r.IntN(40)))
		out = st.Write(out, rest[:n])
		rest = rest[n:]
		if r.IntN(8) == 0 { // a look at what is held changes nothing
			st.Rest()
		}
	}
	return string(st.Close(out))
}

// Whatever the pieces, the output is that of the whole text.
func TestStreamDoesNotDependOnPieces(t *testing.T) {
	r := random(t)
	cases := 20000
	if testing.Short() {
		cases = 1500
	}
	for range cases {
		var needles []string
		for range 1 + r.IntN(4) {
			b := make([]byte, 1+r.IntN(6))
			for j := range b {
				b[j] = "abc"[r.IntN(3)]
			}
			needles = append(needles, string(b))
		}
		var b strings.Builder
		for b.Len() < r.IntN(120) {
			switch r.IntN(12) {
			case 0:
				b.WriteString(rules[r.IntN(len(rules))].prefix)
			case 1:
				b.WriteString(strings.Repeat("A", r.IntN(70)))
			case 2:
				b.WriteString("sk-")
			case 3:
				b.WriteString([]string{" ", "\n", "-", ".", "ä", "\x00"}[r.IntN(6)])
			default:
				b.WriteByte("abcd"[r.IntN(4)])
			}
		}
		text := b.String()
		s := (&Set{}).build(needles, rules)
		want := brute(text, needles)
		if got := pieces(r, s.Stream(), text); got != want {
			t.Fatalf("needles %q, text %q:\n got %q\nwant %q", needles, text, got, want)
		}
		if got, some := s.Redact(text); got != want || some != (want != text) {
			t.Fatalf("needles %q, text %q, at once:\n got %q, %v\nwant %q", needles, text, got, some, want)
		}
	}
}

// A text that breaks off in the middle of a secret and goes on tells no part of it that is worth anything, and nothing else
// of it is lost.
func TestBreak(t *testing.T) {
	key := "sk-" + strings.Repeat("aB3", 12)
	for _, whole := range append(variants(secret), key) {
		least := shortest // of the first part, where that is redacted
		if whole == key {
			least = len("sk-") + 16
		}
		for cut := range len(whole) + 1 {
			for _, learned := range []bool{false, true} { // something else in between
				st := New([]string{secret}).Stream()
				first := string(st.Write(nil, "it is "+whole[:cut]))
				rest := st.Rest()
				if got := string(st.Break([]byte(first))); got != first+rest || cut < least && got != "it is "+whole[:cut] || cut >= least && got != "it is "+Mask {
					t.Fatalf("%q at %d: first %q, and was to be %q", whole, cut, got, first+rest)
				}
				if learned {
					if st.Use(New([]string{secret, "another-secret-1"})); whole == key {
						continue // only values are still known
					}
				}
				second := string(st.Close(st.Write(nil, whole[cut:]+", and on")))
				if cut < len(whole) && second != Mask+", and on" || cut == len(whole) && second != ", and on" {
					t.Fatalf("%q at %d: then %q", whole, cut, second)
				}
			}
		}
	}
	st := New([]string{secret}).Stream()
	got := string(st.Break(st.Write(nil, "no "+secret[:len(secret)-1])))
	if got = string(st.Close(st.Write([]byte(got), "!"))); got != "no "+Mask+"!" {
		t.Errorf("what was none: %q", got)
	}
}

// Of a text that may go on, or of the strings of one, the end is redacted that may be the first part of a secret.
func TestUnfinished(t *testing.T) {
	s := New([]string{secret})
	unfinished := func(path, text string) (string, bool) {
		if path != "0.a" && path != ".0.a" && path != ".1" {
			t.Errorf("%q is at %s", text, path)
		}
		return s.Unfinished(text)
	}
	for cut := range len(secret) {
		want, masked := "it is "+secret[:cut], cut >= shortest
		if masked {
			want = "it is " + Mask
		}
		if got, some := s.Unfinished("it is " + secret[:cut]); got != want || some != masked {
			t.Errorf("at %d: %q, %v", cut, got, some)
		}
		if !utf8.ValidString(secret[:cut]) {
			continue // JSON has no half characters
		}
		raw, err := json.Marshal([]any{map[string]any{"a": "it is " + secret[:cut], "b": 1}, "x"})
		if err != nil {
			t.Fatal(err)
		}
		said, err := json.Marshal([]any{map[string]any{"a": want, "b": 1}, "x"})
		if err != nil {
			t.Fatal(err)
		}
		if got, some := s.Strings(raw, false, unfinished); string(got) != string(said) || some != masked {
			t.Errorf("at %d: %s, %v", cut, got, some)
		}
	}
}

// A text is clean when whatever follows it changes nothing in it.
func TestClean(t *testing.T) {
	s := New([]string{secret})
	for text, want := range map[string]bool{"": true, "nothing!": true, "it is " + secret: false, "it is " + secret + ".": false,
		"it is " + secret[:1]: false, "it is " + secret[:len(secret)-1]: false, "it is " + secret[:5] + " no": true, "sk-" + strings.Repeat("aB3", 12) + " and": false} {
		if got := s.Clean(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Of a text that begins in the middle of a secret the rest of that is redacted, unless it may as well be words.
func TestBeheaded(t *testing.T) {
	const secret = "q7Zk9Xw2Rt5Lm8Vb3N"
	const address = "postgres://app:q7Zk9Xw2@db.internal:5432/team-records_production"
	s := New([]string{secret, "Another" + secret, address, "Correct-Horse-Battery-15"})
	for cut := range len(secret) {
		rest := secret[cut:]
		want, masked := rest+", and on", len(rest) >= shortest
		if masked {
			want = Mask + ", and on"
		}
		if got, some := s.Beheaded(rest + ", and on"); got != want || some != masked {
			t.Errorf("%q: %q, %v", rest, got, some)
		}
		if text := `{"a":["` + rest + `"]}`; s.Beheads([]byte(text)) != masked {
			t.Errorf("%s: that there is a rest is %v", text, !masked)
		}
	}
	for _, text := range []string{"production server started", "db.internal", "db.internal:5432", "records_production", "Horse-Battery", "Battery-15 of", "internal", "team-records"} {
		if got, some := s.Beheaded(text); got != text || some {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]string{"q7Zk9Xw2@db": Mask, "q7Zk9Xw2@db and": "q7Zk9Xw2@db and", secret[3:10]: secret[3:10], "x" + secret[3:]: "x" + secret[3:], "": ""} {
		if got, _ := s.Beheaded(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Of a secret that begins before the end of a text that is given, nothing is, whatever part of it stands in that end.
func TestAfter(t *testing.T) {
	s := New([]string{secret})
	key := "sk-" + strings.Repeat("aB3", 12)
	for _, whole := range append(variants(secret), key) {
		text := "it is " + whole + ", and on"
		for at := range len(text) + 1 {
			want := "it is " + Mask + ", and on"
			switch from := len("it is "); {
			case at <= from:
				want = want[at:]
			case at <= from+len(whole):
				want = want[from:]
			default:
				want = text[at:]
			}
			got := s.After(text[:at], text[at:])
			got = strings.TrimPrefix(got, Mask) // which is told of a value once it is whole, and of a form before
			if want = strings.TrimPrefix(want, Mask); got != want {
				t.Errorf("%q behind %q: %q, and not %q", text[at:], text[:at], got, want)
			}
		}
	}
}

// A stream used twice forgets its first text.
func TestStreamBeginsAgain(t *testing.T) {
	s := (&Set{}).build([]string{"secret"}, rules)
	st := s.Stream()
	first := string(st.Close(st.Write(nil, "a sec")))
	second := string(st.Close(st.Write(nil, "ret")))
	if first+second != "a secret" {
		t.Errorf("%q %q", first, second)
	}
}

// A secret that becomes known in the middle of a text is looked for in what is still held.
func TestStreamUsesAnotherSet(t *testing.T) {
	old, now := (&Set{}).build([]string{"first-secret"}, nil), (&Set{}).build([]string{"first-secret", "fir-tree"}, nil)
	st := old.Stream()
	out := st.Write(nil, "the fir")
	st.Use(now)
	out = st.Close(st.Write(out, "-tree and first-secret"))
	if got := string(out); got != "the "+Mask+" and "+Mask {
		t.Errorf("%q", got)
	}
}

const secret = `Tr0ub4dor&3/<"\+=~ä`

func TestEncodings(t *testing.T) {
	s := New([]string{secret})
	once, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(once))
	forms := map[string]string{"raw": secret, "JSON": string(once), "JSON in JSON": string(twice), "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for _, before := range []string{"", "a", "ab", "abc"} {
		for _, after := range []string{"", "x", "xy", "xyz"} {
			forms["base64 "+before+after] = base64.StdEncoding.EncodeToString([]byte(before + secret + after))
			forms["URL base64 "+before+after] = base64.URLEncoding.EncodeToString([]byte(before + secret + after))
		}
	}
	for name, form := range map[string]string{"Python": `Tr0ub4dor&3/<\"\\+=~\u00e4`, "Gson": `Tr0ub4dor\u00263/\u003c\"\\+\u003d~ä`, ".NET": `Tr0ub4dor\u00263/\u003C\u0022\\\u002B=~\u00E4`} {
		forms[name] = form
	}
	for name, form := range forms {
		got, some := s.Redact("before " + form + " after")
		left := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(got, "before "), " after"), Mask, "")
		if !some || len(left) > 14 || strings.Contains(got, secret[:8]) { // what the alignment leaves is no whole secret
			t.Errorf("%s: %q became %q", name, form, got)
		}
	}
}

func TestRules(t *testing.T) {
	long := "Ab1" + strings.Repeat("x7Yq", 20)
	for _, tt := range []struct{ text, want string }{
		{"key sk-proj-" + long + ".", "key " + Mask + "."},
		{`{"k":"sk-ant-api03-` + long + `"}`, `{"k":"` + Mask + `"}`},
		{"ghp_" + long[:36] + " x", Mask + " x"},
		{"export AWS=AKIAIOSFODNN7EXAMPLE", "export AWS=" + Mask},
		{"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def_123", "Bearer " + Mask},
		{"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIE", 30) + "\n-----END PRIVATE KEY-----", "-----BEGIN " + Mask + "-----END PRIVATE KEY-----"},
		// What is none.
		{"risk-" + long, "risk-" + long},
		{"sk-short", "sk-short"},
		{"task-force and disk-space", "task-force and disk-space"},
		{"AKIA is a prefix", "AKIA is a prefix"},
		{"npm_config_registry=https://registry.npmjs.org", "npm_config_registry=https://registry.npmjs.org"},
	} {
		if got, _ := New(nil).Redact(tt.text); got != tt.want {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

func TestUsable(t *testing.T) {
	for v, want := range map[string]bool{"": false, "true": false, "short1": false, "production": false, "password": false, "aaaaaaaaaaaaaaaa": true,
		"hunter22": true, "Passw0rd": true, "12345678": false, strings.Repeat(" ", 20): false, strings.Repeat("x", 5000): false} {
		if Usable(v) != want {
			t.Errorf("%.20q: %v", v, !want)
		}
	}
	if got, some := New([]string{"production"}).Redact("production"); some || got != "production" {
		t.Errorf("%q", got)
	}
}

func TestJSON(t *testing.T) {
	s := New([]string{secret, "ordinary-secret-1"})
	in := map[string]any{"n": json.Number("12345678901234567890.5"), "list": []any{"a", secret, map[string]any{secret: "ordinary-secret-1", "x": nil}}, "t": "\nsk-" + strings.Repeat("aB3", 12)}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	got, some := s.JSON(text, nil)
	if want := `{"list":["a","` + Mask + `",{"` + Mask + `":"` + Mask + `","x":null}],"n":12345678901234567890.5,"t":"\n` + Mask + `"}`; string(got) != want || !some {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, same := range []string{`{"b":1,  "a":"risk-` + strings.Repeat("aB3", 12) + `"}`, `{"a":`, `ordinary-secret-1`, `{}`} {
		if got, some := s.JSON([]byte(same), nil); some || string(got) != same {
			t.Errorf("%s became %s", same, got)
		}
	}
}

// JSON that others wrote has escapes that nobody needs, and members that are there twice.
func TestOddJSON(t *testing.T) {
	s := New([]string{secret, "plain+text='1'"})
	escape := func(text string, all bool) string {
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune(text)) {
			if all || unit >= utf8.RuneSelf || strings.ContainsRune(`+='"<>&\`, rune(unit)) {
				fmt.Fprintf(&b, `\u%04X`, unit)
			} else {
				b.WriteByte(byte(unit))
			}
		}
		return b.String()
	}
	for _, value := range []string{secret, "plain+text='1'"} {
		for _, all := range []bool{false, true} {
			told := escape(value, all)
			if got, some := s.JSON([]byte(`{"a":["`+told+`"]}`), nil); string(got) != `{"a":["`+Mask+`"]}` || !some {
				t.Errorf("%s became %s", told, got)
			}
			half := escape(string([]rune(value)[:10]), all)
			if got, some := s.Strings([]byte(`{"a":["`+half+`"]}`), false, func(_, text string) (string, bool) { return s.Unfinished(text) }); string(got) != `{"a":["`+Mask+`"]}` || !some {
				t.Errorf("%s became %s", half, got)
			}
		}
	}
	for _, want := range []string{`{"a":"x","b":1}`, `{"a":{"b":[{"c":"x"}]}}`} {
		at := strings.Index(want, `:"x"`)
		twice := want[:at] + `:"plain+text='1'",` + want[at-3:at] + want[at:]
		if got, _ := s.JSON([]byte(twice), nil); string(got) != want {
			t.Errorf("%s became %s", twice, got)
		}
	}
	for _, same := range []string{`{"a":"\u001b[1m\u003cb\u003e"}`, `{"a":"\u00e4"}`, `{"b":"half of \ud83d","a":1}`} {
		if got, some := s.JSON([]byte(same), nil); string(got) != same || some {
			t.Errorf("%s became %s", same, got)
		}
	}
}

// A secret of digits alone may come as a number, which stays one wherever it is ours.
func TestNumbersInJSON(t *testing.T) {
	s := New([]string{"1234567890123456"})
	in := `{"detail":{"pin":1234567890123456,"n":7},"n":1234567890123456,"raw":[1234567890123456]}`
	if got, some := s.JSON([]byte(in), nil); string(got) != `{"detail":{"n":7,"pin":"`+Mask+`"},"n":1234567890123456,"raw":["`+Mask+`"]}` || !some {
		t.Errorf("%s", got)
	}
}

func TestJSONKeeps(t *testing.T) {
	s := New([]string{"ordinary-secret-1"})
	got, some := s.JSON([]byte(`{"id":"ordinary-secret-1","list":[{"id":"ordinary-secret-1","text":"ordinary-secret-1"}],"tree":{"a":["ordinary-secret-1"]}}`),
		map[string]bool{"id": true, "list.*.id": true, "tree": true})
	if want := `{"id":"ordinary-secret-1","list":[{"id":"ordinary-secret-1","text":"` + Mask + `"}],"tree":{"a":["ordinary-secret-1"]}}`; string(got) != want || !some {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Nothing that an agent writes makes it slow: each byte costs the same, whatever came before.
func TestHostileText(t *testing.T) {
	s := New(nil)
	for _, unit := range []string{"sk-", "sk-a", "PRIVATE KEY-----", "ghp_ghp_", "AKIA"} {
		text := strings.Repeat(unit, 20_000)
		st := s.Stream()
		st.Write(nil, text)
		if len(st.runs) > 100 || len(st.held) > 2000 {
			t.Errorf("%q: %d runs, %d bytes held", unit, len(st.runs), len(st.held))
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	var values []string
	for i := range 50 {
		values = append(values, fmt.Sprintf("secret-%d-%040d", i, i*7919))
	}
	s := New(values)
	text := bytes.Repeat([]byte(`{"kind":"text","command":"c-1","item":"i","text":"some ordinary sk-12 text 0000 of the model, secret-1 of it"}`), 300)
	text = append(append([]byte("["), bytes.ReplaceAll(text, []byte("}{"), []byte("},{"))...), ']')
	b.SetBytes(int64(len(text)))
	b.ReportMetric(float64(len(s.next)*4+len(s.nodes)*20)/1e6, "MB")
	for b.Loop() {
		if _, some := s.JSON(text, nil); some {
			b.Fatal("found")
		}
	}
}
