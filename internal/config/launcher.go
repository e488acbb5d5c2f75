package config

import (
	"path/filepath"
	"runtime"
	"strings"
)

// through sees through what stands before the program: symlinks, and the Node launcher of Codex. It returns the path to
// execute and the real path of the program.
//
// A link whose name does not occur in the name of what it leads to is executed under its own name: version managers
// (volta, mise, proto) link every command to one program that looks at its argv[0].
func (s *search) through(found string) (program, executable string) {
	if shim, ok := s.asdf(found); ok {
		found = shim
	}
	target := real(found)
	if native, ok := codexNative(target); ok {
		return native, native
	}
	if !strings.Contains(filepath.Base(target), filepath.Base(found)) {
		return found, target
	}
	return target, target
}

// codexTarget is the Rust target and the npm package suffix of this system.
func codexTarget(goos, goarch string) (triple, suffix string, ok bool) {
	arch, cpu := "", ""
	switch goarch {
	case "amd64":
		arch, cpu = "x86_64", "x64"
	case "arm64":
		arch, cpu = "aarch64", "arm64"
	default:
		return "", "", false
	}
	switch goos {
	case "linux":
		return arch + "-unknown-linux-musl", "linux-" + cpu, true
	case "darwin":
		return arch + "-apple-darwin", "darwin-" + cpu, true
	}
	return "", "", false
}

// codexNative finds the native program behind @openai/codex/bin/codex.js. The launcher is a Node script, and would run
// whatever NODE_OPTIONS says. In 0.171.0 the program lies in vendor/<target>/bin of a package of its own, beside or below
// the launcher's; earlier releases had it in the launcher's own vendor folder, and in a folder codex instead of bin.
func codexNative(launcher string) (string, bool) {
	const script = "/@openai/codex/bin/codex.js"
	modules, ok := strings.CutSuffix(filepath.ToSlash(launcher), script)
	triple, suffix, known := codexTarget(runtime.GOOS, runtime.GOARCH)
	if !ok || !known {
		return "", false
	}
	for _, root := range []string{
		filepath.Join(modules, "@openai", "codex-"+suffix),
		filepath.Join(modules, "@openai", "codex", "node_modules", "@openai", "codex-"+suffix),
		filepath.Join(modules, "@openai", "codex"),
	} {
		for _, folder := range []string{"bin", "codex"} {
			file := filepath.Join(root, "vendor", triple, folder, "codex")
			if executable(file) == nil {
				return real(file), true
			}
		}
	}
	return "", false
}
