package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/batonmcp/baton/internal/wire"
	"github.com/batonmcp/baton/sessions"
)

func (f *fixture) writeFile(id, path, content string) message {
	f.Helper()
	f.peer.request(id, methodWriteFile, fmt.Sprintf(`{"sessionId":"s1","path":%q,"content":%q}`, path, content))
	return f.peer.reply(id)
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := opened(t, Options{Files: true}, sessions.OpenParams{Cwd: dir})
	file := filepath.Join(dir, "a.txt")
	if m := f.writeFile("1", file, "early"); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("written without a turn: %+v", m)
	}
	p := f.prompt("c1")
	if m := f.writeFile("2", file, "one\ntwo\n"); m.Error != nil || string(m.Result) != "{}" {
		t.Errorf("write: %+v", m)
	}
	if e := f.rec.await(sessions.EventCommandAccepted); e.Data["evidence"] != methodWriteFile {
		t.Errorf("accepted by %v", e.Data)
	}
	f.peer.request("3", methodReadFile, fmt.Sprintf(`{"sessionId":"s1","path":%q,"line":2,"limit":null}`, file))
	var read struct{ Content string }
	if m := f.peer.reply("3"); json.Unmarshal(m.Result, &read) != nil || read.Content != "two\n" {
		t.Errorf("read: %+v %s", m, m.Result)
	}
	for id, params := range map[string]string{
		"10": `{"sessionId":"s1","path":"/etc/hosts"}`, "11": `{"sessionId":"other","path":"` + file + `"}`, "12": `{"sessionId":"s1","path":"a.txt"}`, "13": `[]`,
	} {
		f.peer.request(id, methodReadFile, params)
		if m := f.peer.reply(id); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
			t.Errorf("%s: %+v", params, m)
		}
	}
	f.peer.request("14", methodReadFile, fmt.Sprintf(`{"sessionId":"s1","path":%q}`, filepath.Join(dir, "none")))
	if m := f.peer.reply("14"); m.Error == nil || m.Error.Code != codeNoResource {
		t.Errorf("missing: %+v", m)
	}
	f.peer.request("15", methodWriteFile, fmt.Sprintf(`{"sessionId":"s1","path":%q}`, file))
	if m := f.peer.reply("15"); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("write without content: %+v", m)
	}
	if err := f.Agent.Cancel(f.ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	f.peer.next("session/cancel")
	if m := f.writeFile("16", file, "late"); m.Error == nil {
		t.Error("a cancelled turn wrote")
	}
	f.peer.result(p, `{"stopReason":"cancelled"}`)
	f.settled()
	if got, err := os.ReadFile(file); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

func TestFilesAreOfferedAsServed(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "reports")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options Options
		open    sessions.OpenParams
		want    string
	}{
		"not wanted":   {open: sessions.OpenParams{Cwd: dir}, want: `null`},
		"no workspace": {options: Options{Files: true}, open: sessions.OpenParams{Cwd: dir + "/none"}, want: `null`},
		"wanted":       {options: Options{Files: true}, open: sessions.OpenParams{Cwd: dir}, want: `{"readTextFile":true,"writeTextFile":true}`},
		"read-only": {options: Options{Files: true}, open: sessions.OpenParams{Cwd: dir, BridgeSandbox: sessions.SandboxReadOnly},
			want: `{"readTextFile":true,"writeTextFile":false}`},
		"read-only but for a root": {options: Options{Files: true}, open: sessions.OpenParams{Cwd: dir, WritableRoots: []string{root}, BridgeSandbox: sessions.SandboxReadOnly},
			want: `{"readTextFile":true,"writeTextFile":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.options)
			f.peer.likeCursor()
			var fs string
			f.peer.answer("initialize", func(m message) string {
				raw, err := json.Marshal(m.param(t, "clientCapabilities").(map[string]any)["fs"])
				if err != nil {
					t.Error(err)
				}
				fs = string(raw)
				return cursorInitialized
			})
			if _, err := f.open(c.open); err != nil {
				t.Fatal(err)
			}
			if fs != c.want {
				t.Errorf("offered %s, want %s", fs, c.want)
			}
			f.prompt("c1")
			m := f.writeFile("1", filepath.Join(dir, "x"), "x")
			if served := m.Error == nil; served != (name == "wanted") {
				t.Errorf("write: %+v", m)
			}
			m = f.writeFile("2", filepath.Join(root, "x"), "x")
			if served := m.Error == nil; served != (len(c.open.WritableRoots) > 0 || name == "wanted") {
				t.Errorf("write into the root: %+v", m)
			}
		})
	}
}
