package acp

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"

	"github.com/batonmcp/baton/sessions"
)

// maxImage keeps a prompt of a few images well below the 64 MiB that a line may have.
const maxImage = 10 << 20

// promptBlocks makes the content of a prompt. There is always a block: Gemini hangs after an empty prompt (0.61). It
// runs outside the loop.
func (a *Agent) promptBlocks(p sessions.Prompt) ([]block, error) {
	if p.Text == "" && len(p.Images) == 0 {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the prompt of command %s is empty", p.CommandID).Do("give it a text")
	}
	var blocks []block
	if p.Text != "" {
		blocks = append(blocks, block{Type: "text", Text: p.Text})
	}
	for _, path := range p.Images {
		b, err := a.imageBlock(path)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (a *Agent) imageBlock(path string) (block, error) {
	var none block
	space := a.space.Load()
	if space == nil {
		return none, sessions.Errorf(sessions.CodeNotRunning, "image %s cannot be read: the workspace is not open", path).Do("resume the session")
	}
	f, _, err := space.open(path, os.O_RDONLY)
	if err != nil {
		return none, sessions.Errorf(sessions.CodeInvalidParams, "image %s cannot be read: %w", path, err).Do("give the path of an image file in the workspace")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	switch {
	case err != nil:
		return none, sessions.Errorf(sessions.CodeInvalidParams, "image cannot be read: %w", err).Do("give the path of an image file")
	case len(data) > maxImage:
		return none, sessions.Errorf(sessions.CodeLimitExceeded, "image %s is longer than %d bytes", path, maxImage).Do("make it smaller")
	}
	kind := imageKind(data)
	if kind == "" {
		return none, sessions.Errorf(sessions.CodeInvalidParams, "%s is no image", filepath.Base(path)).
			Do("give a PNG, JPEG, GIF or WebP file")
	}
	return block{Type: "image", MIMEType: kind, Data: base64.StdEncoding.EncodeToString(data)}, nil
}

// imageKind is the type of an image by how it begins, "" for what is none (https://mimesniff.spec.whatwg.org, section 6.1).
// net/http knows it too, and would be initialised in every bridge for it.
func imageKind(data []byte) string {
	for _, k := range []struct{ kind, head, further string }{
		{"image/png", "\x89PNG\r\n\x1a\n", ""}, {"image/jpeg", "\xff\xd8\xff", ""}, {"image/gif", "GIF87a", ""}, {"image/gif", "GIF89a", ""},
		{"image/webp", "RIFF", "WEBPVP"}, {"image/bmp", "BM", ""}, {"image/x-icon", "\x00\x00\x01\x00", ""},
	} {
		if bytes.HasPrefix(data, []byte(k.head)) && (k.further == "" || len(data) > 8 && bytes.HasPrefix(data[8:], []byte(k.further))) {
			return k.kind
		}
	}
	return ""
}
