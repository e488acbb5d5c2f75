package config

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// asdf finds the program behind a shim of asdf: a script in $ASDF_DATA_DIR/shims that names plugin and version of every
// installation that has the command ("# asdf-plugin: nodejs 22.1.0", one a line) and then runs asdf. Which of them
// counts is said by ASDF_<PLUGIN>_VERSION, else by the nearest .tool-versions of the session's folder or above, else
// by the one at home. Where that leads to no executable the shim is left as it is.
func (s *search) asdf(found string) (string, bool) {
	data := s.getenv("ASDF_DATA_DIR")
	if !filepath.IsAbs(data) {
		data = filepath.Join(s.getenv("HOME"), ".asdf")
	}
	if !filepath.IsAbs(data) || real(filepath.Dir(found)) != real(filepath.Join(data, "shims")) {
		return "", false
	}
	script, err := os.ReadFile(found)
	if err != nil {
		return "", false
	}
	offered := map[string][]string{} // by plugin
	var plugins []string
	for line := range bytes.Lines(script) {
		words := strings.Fields(string(line))
		if len(words) == 4 && words[0] == "#" && words[1] == "asdf-plugin:" && plain(words[2]) && plain(words[3]) {
			if offered[words[2]] == nil {
				plugins = append(plugins, words[2])
			}
			offered[words[2]] = append(offered[words[2]], words[3])
		}
	}
	for _, plugin := range plugins {
		for _, version := range s.asdfVersions(plugin, offered[plugin]) {
			install := filepath.Join(data, "installs", plugin, version)
			for _, folder := range []string{"bin", ".npm/bin"} {
				if file := filepath.Join(install, folder, filepath.Base(found)); executable(file) == nil {
					return file, true
				}
			}
		}
	}
	return "", false
}

// asdfVersions are the asked versions of a plugin among the offered ones, in the order they were asked for.
func (s *search) asdfVersions(plugin string, offered []string) []string {
	asked := strings.Fields(s.getenv("ASDF_" + strings.ToUpper(strings.ReplaceAll(plugin, "-", "_")) + "_VERSION"))
	var dirs []string
	if filepath.IsAbs(s.cwd) {
		for dir := filepath.Clean(s.cwd); ; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	dirs = append(dirs, s.getenv("HOME"))
	for _, dir := range dirs {
		if len(asked) > 0 {
			break
		}
		text, _ := os.ReadFile(filepath.Join(dir, ".tool-versions"))
		for line := range bytes.Lines(text) {
			content, _, _ := strings.Cut(string(line), "#")
			if words := strings.Fields(content); len(words) > 1 && words[0] == plugin {
				asked = words[1:]
				break
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(asked), func(v string) bool { return !slices.Contains(offered, v) })
}

// plain tells whether a word is one path element.
func plain(word string) bool {
	return word != "." && word != ".." && !strings.ContainsAny(word, "/\x00")
}
