package bridge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// writeSpill appends the frames and syncs them.
func writeSpill(f *os.File, frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	if f == nil {
		return fmt.Errorf("%d frames and no spill file", len(frames))
	}
	for _, line := range frames {
		if _, err := f.Write(line); err != nil {
			return fmt.Errorf("write spill: %w", err)
		}
	}
	return f.Sync()
}

// ReadSpill calls do for every whole out frame of a spill file, in order. A torn last line ends it quietly: its frame
// was never promised to anybody.
func ReadSpill(path string, do func(Frame) error) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read spill: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		fr, err := readFrame(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(fr); err != nil {
			return err
		}
	}
}
