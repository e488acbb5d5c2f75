package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The measurements work, lose nothing and leave nothing behind. How fast they are is no matter of a test.
func TestBenchQuick(t *testing.T) {
	codex := os.Getenv(benchTestCodex)
	w := newWorld(t, benchTestCodex+"="+codex)
	tmp := t.TempDir()
	out, errs, status := w.verb("bench", "--quick", "--json", "--dir", tmp)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	cases := map[string]int{}
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		var f benchFigure
		if err := json.Unmarshal(s.Bytes(), &f); err != nil {
			t.Fatalf("%s: %v", s.Bytes(), err)
		}
		if cases[f.Bench]++; f.Case == "" || f.Unit == "" || f.Value <= 0 || f.Met != nil || (f.Floor > 0) != (f.Ratio > 0) {
			t.Errorf("%s", s.Bytes())
		}
	}
	for _, b := range benches {
		if cases[b.name] == 0 && (b.name != "codex" || codex != "") {
			t.Errorf("no figure of %s: %v", b.name, cases)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	await(t, "the end of what it started", func() bool {
		for _, p := range allProcesses(t) {
			environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
			if strings.Contains(string(environ), tmp) {
				return false
			}
		}
		return true
	})
}

func TestBenchNames(t *testing.T) {
	w := newWorld(t)
	if _, errs, status := w.verb("bench", "speed"); status != exitUsage || !strings.Contains(errs, `"speed"`) || !strings.Contains(errs, "stream") {
		t.Errorf("status %d: %s", status, errs)
	}
	out, errs, status := w.verb("bench", "intents", "--quick", "--dir", t.TempDir())
	if status != 0 || !strings.Contains(out, "16 callers") || strings.Contains(out, "stream:") || strings.Contains(out, "MISSED") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
