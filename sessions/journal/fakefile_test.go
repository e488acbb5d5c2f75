package journal

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// SQLite's use of it.

func (d *fakeDisk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if name == "" {
		return nil, flags, sqlite3.CANTOPEN // the journal wants no temporary files
	}
	f := &fakeFile{d: d, name: name, node: d.names[name]}
	if f.node == nil {
		if flags&vfs.OPEN_CREATE == 0 {
			return nil, flags, sqlite3.CANTOPEN
		}
		if err := d.step("create", name); err != nil {
			return nil, flags, err
		}
		f.node = &inode{}
		d.rename2(name, f.node)
		f.newName = flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_WAL) != 0 // the real one syncs the directory with these alone
	}
	if flags&vfs.OPEN_MAIN_DB != 0 {
		f.shm = vfs.NewSharedMemory(filepath.Join(d.dir, d.vfs+filepath.Base(name)+"-shm"), flags)
	}
	return f, flags, nil
}

func (d *fakeDisk) Delete(name string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	if err := d.step("remove", name); err != nil {
		return err
	}
	d.rename2(name, nil)
	if syncDir {
		if err := d.step("syncdir", name); err != nil {
			return err
		}
		d.syncDir()
	}
	return nil
}

func (d *fakeDisk) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name] != nil, nil
}

func (d *fakeDisk) FullPathname(name string) (string, error) { return name, nil }

type fakeFile struct {
	d       *fakeDisk
	name    string
	node    *inode
	newName bool
	shm     vfs.SharedMemory
}

var _ vfs.FileSharedMemory = (*fakeFile)(nil)

func (f *fakeFile) SharedMemory() vfs.SharedMemory { return f.shm }

func (f *fakeFile) Close() error {
	_ = f.Unlock(vfs.LOCK_NONE)
	if f.shm != nil {
		return f.shm.Close()
	}
	return nil
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if off >= int64(len(f.node.now)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.now[off:])
	f.d.reads += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step("write", f.name); err != nil {
		if errors.Is(err, errCut) { // the write that the cut interrupts may be there in part
			f.node.limbo = append(f.node.limbo, change{off, append([]byte(nil), p...)})
		}
		return 0, err
	}
	f.node.now = overwrite(f.node.now, off, p)
	f.node.limbo = append(f.node.limbo, change{off, append([]byte(nil), p...)})
	return len(p), nil
}

func (f *fakeFile) Truncate(n int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step("truncate", f.name); err != nil {
		return err
	}
	f.node.now = resize(f.node.now, n)
	f.node.limbo = append(f.node.limbo, change{off: n})
	return nil
}

func (f *fakeFile) Sync(vfs.SyncFlag) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step("sync", f.name); err != nil {
		if !errors.Is(err, errCut) {
			f.node.limbo = nil // Linux takes the pages for clean: readable, and never written again
		}
		return err
	}
	f.node.sync()
	if f.newName {
		if err := f.d.step("syncdir", f.name); err != nil {
			return err
		}
		f.newName = false
		f.d.syncDir()
	}
	return nil
}

func (f *fakeFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.node.now)), nil
}

func (f *fakeFile) Lock(l vfs.LockLevel) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	for other, held := range f.node.locks {
		if other != f && (held == vfs.LOCK_EXCLUSIVE || l == vfs.LOCK_EXCLUSIVE || (l >= vfs.LOCK_RESERVED && held >= vfs.LOCK_RESERVED)) {
			return sqlite3.BUSY
		}
	}
	if f.node.locks == nil {
		f.node.locks = map[*fakeFile]vfs.LockLevel{}
	}
	f.node.locks[f] = l
	return nil
}

func (f *fakeFile) Unlock(l vfs.LockLevel) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if l == vfs.LOCK_NONE {
		delete(f.node.locks, f)
	} else {
		f.node.locks[f] = l
	}
	return nil
}

func (f *fakeFile) CheckReservedLock() (bool, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	for _, held := range f.node.locks {
		if held >= vfs.LOCK_RESERVED {
			return true, nil
		}
	}
	return false, nil
}

func (f *fakeFile) SectorSize() int { return 512 }

// DeviceCharacteristics are those of the real one on a common file system.
func (f *fakeFile) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}
