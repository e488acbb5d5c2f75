package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFailPointsAreListed: what the crash suite kills at is what the program has.
func TestFailPointsAreListed(t *testing.T) {
	hit := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	there := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range hit.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, p := range points() {
		listed = append(listed, p.name)
	}
	slices.Sort(listed)
	if got := slices.Sorted(maps.Keys(there)); !slices.Equal(got, listed) {
		t.Errorf("the program has %v,\nlisted are      %v", got, listed)
	}
}
