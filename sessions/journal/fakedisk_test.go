package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// fakeDisk is a disk in memory that can lose its power. What was written since a file's last sync survives a cut in
// random 512-byte sectors; names made, changed or removed since their directory's last sync survive by chance.
type fakeDisk struct {
	mu    sync.Mutex
	names map[string]*inode // as programs see them now
	safe  map[string]*inode // as a power cut would leave them
	limbo []nameOp          // between the two
	rnd   *rand.Rand
	steps int  // writes, truncations, syncs and changes of names so far
	cut   int  // the power goes at this step; 0: never
	dead  bool // it is gone
	fail  func(op, name string) error
	reads int64 // bytes read
	vfs   string
	dir   string // for the shared memory, which no power cut outlives
}

type inode struct {
	now, durable []byte
	limbo        []change
	locks        map[*fakeFile]vfs.LockLevel
}

type change struct {
	off  int64
	data []byte // nil: truncated to off
}

type nameOp struct {
	name string
	node *inode // nil: removed
}

var fakeDisks atomic.Int64

// newFakeDisk registers a disk for a test. seed decides what a cut leaves.
func newFakeDisk(t testing.TB, seed uint64) *fakeDisk {
	d := mountFakeDisk(t.TempDir(), seed)
	t.Cleanup(d.unmount)
	return d
}

// mountFakeDisk registers a disk until it is unmounted; dir holds its shared memory.
func mountFakeDisk(dir string, seed uint64) *fakeDisk {
	d := &fakeDisk{names: map[string]*inode{}, safe: map[string]*inode{}, rnd: rand.New(rand.NewPCG(seed, 1)), dir: dir}
	d.vfs = fmt.Sprintf("fake%d", fakeDisks.Add(1))
	vfs.Register(d.vfs, d)
	return d
}

func (d *fakeDisk) unmount() { vfs.Unregister(d.vfs) }

func (d *fakeDisk) options() Options { return Options{disk: d, vfs: d.vfs, Readers: 2, checkpoint: 24} }

// crash is the disk as the next process finds it after this one was killed: nothing is lost, nothing is locked.
func (d *fakeDisk) crash(t testing.TB) *fakeDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newFakeDisk(t, d.rnd.Uint64())
	n.limbo = d.limbo
	copies := map[*inode]*inode{}
	copyOf := func(node *inode) *inode {
		if node != nil && copies[node] == nil {
			copies[node] = &inode{now: append([]byte(nil), node.now...), durable: append([]byte(nil), node.durable...), limbo: node.limbo}
		}
		return copies[node]
	}
	for name, node := range d.names {
		n.names[name] = copyOf(node)
	}
	for name, node := range d.safe {
		n.safe[name] = copyOf(node)
	}
	for i, op := range n.limbo {
		n.limbo[i].node = copyOf(op.node)
	}
	return n
}

// reboot is the disk after its power came back, mounted.
func (d *fakeDisk) reboot() *fakeDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := mountFakeDisk(d.dir, d.rnd.Uint64())
	names := map[string]*inode{}
	for name, node := range d.safe {
		names[name] = node
	}
	stuck := map[string]bool{} // later changes of a name do not overtake earlier ones
	for _, op := range d.limbo {
		if stuck[op.name] = stuck[op.name] || d.rnd.IntN(2) == 0; stuck[op.name] {
			continue
		}
		if op.node == nil {
			delete(names, op.name)
		} else {
			names[op.name] = op.node
		}
	}
	for name, node := range names {
		b := append([]byte(nil), node.durable...)
		for _, c := range node.limbo {
			if c.data == nil {
				if d.rnd.IntN(2) == 0 {
					b = resize(b, c.off)
				}
				continue
			}
			for at := int64(0); at < int64(len(c.data)); {
				end := min((c.off+at)/512*512+512-c.off, int64(len(c.data)))
				if d.rnd.IntN(2) == 0 {
					b = overwrite(b, c.off+at, c.data[at:end])
				}
				at = end
			}
		}
		n.names[name] = &inode{now: b, durable: append([]byte(nil), b...)}
		n.safe[name] = n.names[name]
	}
	return n
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func overwrite(b []byte, off int64, p []byte) []byte {
	if end := off + int64(len(p)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[off:], p)
	return b
}

var errCut = errors.New("power cut")

// failing has changes of the disk fail as f says, from now on: the writer may be at work on what nobody waits for.
func (d *fakeDisk) failing(f func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f
}

// step counts one change of the disk; d.mu is held.
func (d *fakeDisk) step(op, name string) error {
	if d.dead {
		return errCut
	}
	d.steps++
	if d.cut > 0 && d.steps >= d.cut {
		d.dead = true
		return errCut
	}
	if d.fail != nil {
		return d.fail(op, name)
	}
	return nil
}

func (d *fakeDisk) rename2(name string, node *inode) {
	if node == nil {
		delete(d.names, name)
	} else {
		d.names[name] = node
	}
	d.limbo = append(d.limbo, nameOp{name, node})
}

// syncDir makes the names durable; d.mu is held.
func (d *fakeDisk) syncDir() {
	for _, op := range d.limbo {
		if op.node == nil {
			delete(d.safe, op.name)
		} else {
			d.safe[op.name] = op.node
		}
	}
	d.limbo = nil
}

func (n *inode) sync() {
	for _, c := range n.limbo {
		if c.data == nil {
			n.durable = resize(n.durable, c.off)
		} else {
			n.durable = overwrite(n.durable, c.off, c.data)
		}
	}
	n.limbo = nil
}

// The journal's own use of the disk.

func (d *fakeDisk) claim(string) (func() error, error) { return func() error { return nil }, nil }

func (d *fakeDisk) size(path string) (int64, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.names[path]
	if !ok {
		return 0, false, nil
	}
	return int64(len(n.now)), true, nil
}

func (d *fakeDisk) shm(string) error { return nil } // not on this disk

func (d *fakeDisk) create(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("create", path); err != nil {
		return err
	}
	d.rename2(path, &inode{})
	return nil
}

func (d *fakeDisk) rewrite(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.names[path]
	if !ok {
		return nil
	}
	if err := d.step("rewrite", path); err != nil {
		return err
	}
	n.limbo = append(n.limbo, change{0, append([]byte(nil), n.now...)})
	if err := d.step("sync", path); err != nil {
		return err
	}
	n.sync()
	return nil
}

func (d *fakeDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("sync", from); err != nil {
		return err
	}
	d.names[from].sync()
	if err := d.step("rename", to); err != nil {
		return err
	}
	d.rename2(to, d.names[from])
	d.rename2(from, nil)
	if err := d.step("syncdir", to); err != nil {
		return err
	}
	d.syncDir()
	return nil
}

func (d *fakeDisk) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[path] == nil {
		return nil
	}
	if err := d.step("remove", path); err != nil {
		return err
	}
	d.rename2(path, nil)
	return nil
}
