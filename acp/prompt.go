package acp

import (
	"cmp"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/batonmcp/baton/sessions"
)

// maxImage keeps a prompt of a few images well below the 64 MiB that a line may have.
const maxImage = 10 << 20

// promptBlocks makes the content of a prompt. There is always a block: Gemini hangs after an empty prompt (0.61).
func promptBlocks(p sessions.Prompt) ([]block, error) {
	if p.Text == "" && len(p.Images) == 0 {
		return nil, sessions.Errorf(sessions.CodeInvalidParams, "the prompt of command %s is empty", p.CommandID).Do("give it a text")
	}
	var blocks []block
	if p.Text != "" {
		blocks = append(blocks, block{Type: "text", Text: p.Text})
	}
	for _, path := range p.Images {
		b, err := imageBlock(path)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func imageBlock(path string) (block, error) {
	f, err := openRegular(path)
	if err != nil {
		return block{}, sessions.Errorf(sessions.CodeInvalidParams, "image cannot be read: %w", err).Do("give the path of an image file")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	switch {
	case err != nil:
		return block{}, sessions.Errorf(sessions.CodeInvalidParams, "image cannot be read: %w", err).Do("give the path of an image file")
	case len(data) > maxImage:
		return block{}, sessions.Errorf(sessions.CodeLimitExceeded, "image %s is longer than %d bytes", path, maxImage).Do("make it smaller")
	}
	kind := http.DetectContentType(data)
	if !strings.HasPrefix(kind, "image/") {
		return block{}, sessions.Errorf(sessions.CodeInvalidParams, "%s is no image, it looks like %s", filepath.Base(path), kind).
			Do("give a PNG, JPEG, GIF or WebP file")
	}
	return block{Type: "image", MIMEType: kind, Data: base64.StdEncoding.EncodeToString(data)}, nil
}

// openRegular does not open what a read could wait at for ever.
func openRegular(path string) (*os.File, error) {
	if i, err := os.Stat(path); err != nil || !i.Mode().IsRegular() {
		return nil, cmp.Or(err, error(&os.PathError{Op: "open", Path: path, Err: os.ErrInvalid}))
	}
	return os.Open(path)
}
