package policy

import (
	"io"
	"os"
	"strings"
	"syscall"
)

// gitConfigBytes is how much of a configuration file is looked at.
const gitConfigBytes = 1 << 20

// setting is one line of a configuration of git's. Its name is section.name or section.subsection.name, in lower case but
// for the subsection.
type setting struct{ name, value string }

// readGitConfig reads a configuration file as git 2.39 does, and goes on where git would give up: what it would not run
// today it may run after the next line is corrected. more tells that the file is longer than what was looked at.
func readGitConfig(path string) (all []setting, more bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // whatever it is, it holds up nobody
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, gitConfigBytes+1))
	return parseGitConfig(string(text)), len(text) > gitConfigBytes, err
}

func parseGitConfig(text string) (all []setting) {
	section := ""
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for text != "" {
		text = strings.TrimLeft(text, " \t\n\ufeff")
		switch {
		case text == "":
		case text[0] == '#' || text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			section, text = gitSection(text)
		default:
			end := strings.IndexFunc(text, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') })
			if end < 0 {
				end = len(text)
			}
			if end == 0 {
				_, text, _ = strings.Cut(text, "\n")
				continue
			}
			s := setting{name: section + "." + strings.ToLower(text[:end]), value: "true"}
			text = strings.TrimLeft(text[end:], " \t")
			if strings.HasPrefix(text, "=") {
				s.value, text = gitValue(text[1:])
			}
			all = append(all, s)
		}
	}
	return all
}

// gitSection reads [name], [name.sub] or [name "sub"].
func gitSection(text string) (section, rest string) {
	end := strings.IndexAny(text, "]\"\n")
	if end < 0 {
		return "", ""
	}
	section = strings.ToLower(strings.TrimSpace(text[1:end]))
	rest = text[end:]
	if rest[0] == '"' {
		var sub strings.Builder
		i := 1
		for ; i < len(rest) && rest[i] != '"' && rest[i] != '\n'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			sub.WriteByte(rest[i])
		}
		section += "." + sub.String()
		rest = rest[i:]
		if end = strings.IndexAny(rest, "]\n"); end < 0 {
			return section, ""
		}
		rest = rest[end:]
	}
	return section, rest[1:]
}

// gitValue reads a value to the end of its line, which a backslash moves: without quotes, escapes and comment.
func gitValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // what of b is more than blanks at its end
	text = strings.TrimLeft(text, " \t")
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return b.String()[:kept], text[i+1:]
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case (c == '#' || c == ';') && !quoted:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case '\n':
				continue
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			default:
				c = text[i]
			}
			b.WriteByte(c)
			kept = b.Len()
			continue
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			kept = b.Len()
		}
	}
	return b.String()[:kept], ""
}
