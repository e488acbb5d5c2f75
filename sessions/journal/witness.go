package journal

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// witness is the file layer of a journal's connections. It passes everything to the real one and remembers what failed:
// SQLite reports a failed change as a bare "disk I/O error", drops the errors of some syncs, and the library (v0.37.0)
// forgets the system's reason when another call succeeds before it is asked.
type witness struct {
	vfs.VFS
	name string
	log  gather

	mu     sync.Mutex
	reason error // of the last change that failed
	lost   error // the first sync that failed
}

// watch registers a witness over the file layer called base. The name is the address, so that it is nobody else's.
func watch(base string) (*witness, error) {
	w := &witness{VFS: vfs.Find(base)}
	if w.VFS == nil {
		return nil, fmt.Errorf("no file layer %q", base)
	}
	w.name = fmt.Sprintf("baton-journal-%p", w)
	vfs.Register(w.name, w)
	return w, nil
}

func (w *witness) forget() { vfs.Unregister(w.name) }

// saw takes the outcome of one change of the disk and passes it on.
func (w *witness) saw(op, name string, err error) error {
	if err == nil {
		return nil
	}
	seen := fmt.Errorf("%s %s: %w", op, name, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason = seen
	if op == "sync" && w.lost == nil {
		w.lost = fmt.Errorf("%w: %w", sqlite3.IOERR_FSYNC, seen)
	}
	if errors.Is(err, syscall.EDQUOT) && op != "sync" {
		return vfs.SystemError(err, sqlite3.FULL) // the library knows ENOSPC alone as a lack of room
	}
	return err
}

// because adds the reason of the last failure to a storage error, and forgets it.
func (w *witness) because(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := w.reason
	w.reason = nil
	if err == nil || reason == nil || !fault(err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, reason)
}

// syncLost returns the first sync that failed since renew.
func (w *witness) syncLost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// renew forgets everything; the file is opened anew and written again.
func (w *witness) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason, w.lost = nil, nil
	w.log.forget()
}

func (w *witness) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpen(w.VFS, name, flags)
	return w.wrap(f, name, flags, err)
}

// OpenFilename is what the library calls; the name carries the parameters of the URI.
func (w *witness) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpenFilename(w.VFS, name, flags)
	return w.wrap(f, name.String(), flags, err)
}

func (w *witness) wrap(f vfs.File, name string, flags vfs.OpenFlag, err error) (vfs.File, vfs.OpenFlag, error) {
	if err != nil {
		return nil, flags, w.saw("open", name, err)
	}
	return &watched{File: f, w: w, name: name, log: flags&vfs.OPEN_WAL != 0, main: flags&vfs.OPEN_MAIN_DB != 0}, flags, nil
}

func (w *witness) Delete(name string, syncDir bool) error {
	err := w.VFS.Delete(name, syncDir)
	if errors.Is(err, sqlite3.IOERR_DELETE_NOENT) {
		return err // SQLite asks this way whether it is there
	}
	return w.saw("delete", name, err)
}

type watched struct {
	vfs.File
	w    *witness
	name string
	log  bool // it is the log, whose writes are gathered
	main bool // it is the database, which keeps nothing between its rows
}

var (
	_ vfs.FileUnwrap       = (*watched)(nil)
	_ vfs.FileSharedMemory = (*watched)(nil)
	_ vfs.FileSizeHint     = (*watched)(nil)
	_ vfs.FileHasMoved     = (*watched)(nil)
)

func (f *watched) WriteAt(p []byte, off int64) (int, error) {
	if f.log {
		return len(p), f.w.log.add(p, off, f.write)
	}
	if f.main {
		if size, err := f.File.Size(); err == nil && size < gapLimit {
			emptyGap(p, off/pageSize+1)
		}
	}
	return len(p), f.write(p, off)
}

func (f *watched) write(p []byte, off int64) error {
	_, err := f.File.WriteAt(p, off)
	return f.w.saw("write", f.name, err)
}

// flush has the disk know of everything that was written to this file. What fails is a write to SQLite, in whatever call
// it comes out: after a sync that failed nothing could be believed any more, after a write that found no room all is as
// it was.
func (f *watched) flush() error {
	if !f.log {
		return nil
	}
	err := f.w.log.flush(f.write)
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return vfs.SystemError(err, sqlite3.IOERR_WRITE)
	}
	return err
}

func (f *watched) ReadAt(p []byte, off int64) (int, error) {
	if f.log {
		f.w.log.show(f.write)
	}
	return f.File.ReadAt(p, off)
}

func (f *watched) Size() (int64, error) {
	if f.log {
		f.w.log.show(f.write)
	}
	return f.File.Size()
}

func (f *watched) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	err := f.File.Truncate(size)
	if f.log && err == nil {
		f.w.log.truncated(size)
	}
	return f.w.saw("truncate", f.name, err)
}

func (f *watched) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	err := f.File.Sync(flags)
	if f.log && err == nil {
		f.w.log.synced(f.File)
	}
	return f.w.saw("sync", f.name, err)
}

func (f *watched) Close() error {
	if f.log {
		f.w.log.show(f.write)
	}
	return f.File.Close()
}

// DeviceCharacteristics leaves out atomic batches, which would go past WriteAt.
func (f *watched) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return f.File.DeviceCharacteristics() &^ vfs.IOCAP_BATCH_ATOMIC
}

func (f *watched) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
func (f *watched) SizeHint(size int64) error      { return vfsutil.WrapSizeHint(f.File, size) }
func (f *watched) HasMoved() (bool, error)        { return vfsutil.WrapHasMoved(f.File) }
func (f *watched) Unwrap() vfs.File               { return f.File }
