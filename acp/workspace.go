package acp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// maxText is how much text one fs/read_text_file gives. Clients of agents' SDKs take lines of 10 MiB at least (coder's
// 0.13), so this leaves room for the escapes of JSON.
const maxText = 4 << 20

// workspace is the folders in which files are read and written for the agent: the session's cwd and its writable roots.
//
// A folder is held by its descriptor, and every path below it is walked from there without leaving it, so neither links
// (dangling ones too) nor "..", nor one that is put in between a check and its use, leads outside. Absolute links are
// refused even where they lead back in. Two things the kernel cannot tell apart from files of the workspace: what is
// mounted below it, and hard links. A file with more than one name is read, but not written.
type workspace struct {
	folders []folder
}

type folder struct {
	names []string // how a path may begin: as the session has it, and without symlinks
	root  *os.Root
}

var (
	errOutside  = errors.New("it lies outside the workspace")
	errNoFile   = errors.New("it is no regular file")
	errLinked   = errors.New("it is a hard link to a file that has other names, perhaps outside the workspace")
	errNoText   = errors.New("it is no UTF-8 text")
	errTooLong  = fmt.Errorf("it has more than %d bytes; ask for some of its lines", maxText)
	errRelative = errors.New("the path is not absolute")
)

// openWorkspace opens the folders that there are. None is an error.
func openWorkspace(cwd string, more []string) (*workspace, error) {
	w := &workspace{}
	for i, dir := range append([]string{cwd}, more...) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			if i == 0 {
				return nil, err
			}
			continue // the sandbox, not this, is who answers for a writable root that is missing
		}
		f := folder{names: []string{filepath.Clean(dir)}, root: root}
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != f.names[0] {
			f.names = append(f.names, real)
		}
		w.folders = append(w.folders, f)
	}
	return w, nil
}

// roots is the writable roots without the cwd, nil when there are none. They stay the workspace's to close.
func (w *workspace) roots() *workspace {
	if len(w.folders) < 2 {
		return nil
	}
	return &workspace{folders: w.folders[1:]}
}

func (w *workspace) close() {
	for _, f := range w.folders {
		f.root.Close()
	}
}

// find splits an absolute path into a folder and a path below it. That is by names alone: what is behind the names is
// seen to when the path is opened.
func (w *workspace) find(path string) (*os.Root, string, error) {
	if !filepath.IsAbs(path) {
		return nil, "", errRelative
	}
	path = filepath.Clean(path)
	for _, f := range w.folders {
		for _, name := range f.names {
			if path == name {
				return f.root, ".", nil
			}
			if below, ok := strings.CutPrefix(path, strings.TrimSuffix(name, "/")+"/"); ok {
				return f.root, below, nil
			}
		}
	}
	return nil, "", errOutside
}

// open opens a regular file. Nothing else is waited for: a FIFO opens at once with O_NONBLOCK, and is refused then.
func (w *workspace) open(path string, flag int) (*os.File, fs.FileInfo, error) {
	root, below, err := w.find(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(below, flag|syscall.O_NONBLOCK, 0o666)
	if errors.Is(err, syscall.ENXIO) { // a FIFO without a reader, a socket
		err = errNoFile
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readText gives a text file, or limit lines of it from line on, counted from 1. 0 is from the beginning, and to the end.
func (w *workspace) readText(path string, line, limit uint) (string, error) {
	f, _, err := w.open(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	var text strings.Builder
	for n := uint(1); ; {
		part, err := r.ReadSlice('\n')
		if n >= line {
			if text.Len()+len(part) > maxText {
				return "", errTooLong
			}
			text.Write(part)
		}
		switch {
		case err == nil:
			if n++; limit > 0 && n >= max(line, 1)+limit {
				return checked(text.String())
			}
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return checked(text.String())
		default:
			return "", err
		}
	}
}

// checked refuses what JSON cannot carry: put into it, and written back by the agent, it would be another file.
func checked(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", errNoText
	}
	return text, nil
}

// writeText makes a file hold a text, and makes the file and its folders where they are missing.
func (w *workspace) writeText(path, text string) error {
	f, info, err := w.open(path, os.O_WRONLY|os.O_CREATE)
	if errors.Is(err, fs.ErrNotExist) {
		root, below, _ := w.find(path)
		if err := root.MkdirAll(filepath.Dir(below), 0o777); err != nil {
			return err
		}
		f, info, err = w.open(path, os.O_WRONLY|os.O_CREATE)
	}
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		f.Close()
		return errLinked
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}
