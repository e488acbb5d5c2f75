package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// scaffold is where the new root is put together, on a tmpfs that covers the old /proc: a folder that every machine has,
// and that nothing here needs before the session's own /proc is mounted.
const scaffold = "/proc"

// tree is a detached copy of the mounts at one spot. It was taken before anything was changed, and holds on to the file.
type tree struct {
	spot
	fd int
}

// furnish makes p the root of this mount namespace. It leaves what is hidden to the caller: hide covers it afterwards.
func furnish(p *plan) (err error) {
	root, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("copy the mounts: %w", err)
	}
	defer unix.Close(root)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if p.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	var trees []tree
	defer func() {
		for _, t := range trees {
			unix.Close(t.fd)
		}
	}()
	for _, s := range p.Spots {
		var t tree
		switch s.Access {
		case Writable, ReadOnly:
			t, err = copyTree(s)
		case Private:
			t, err = emptyTree(s)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Access, s.Path, err)
		}
		trees = append(trees, t)
	}
	if err := unix.Mount("tmpfs", scaffold, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64k"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	base := filepath.Join(scaffold, "root")
	if err := unix.Mkdir(base, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, base, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the new root: %w", err)
	}
	at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	for _, t := range trees {
		if err := p.attach(at, t); err != nil {
			return fmt.Errorf("%s %s: %w", t.Access, t.Path, err)
		}
	}
	return enterRoot(at)
}

// enterRoot makes the folder our root and lets go of the old one.
func enterRoot(at int) error {
	if err := unix.Fchdir(at); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root now lies over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let the old root go: %w", err)
	}
	return unix.Chdir("/")
}

// copyTree copies the mounts at a spot, with everything mounted below it.
func copyTree(s spot) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, s.Path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return tree{}, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if s.Access == ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err = s.is(fd)
	if err == nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	}
	if err != nil {
		unix.Close(fd)
		return tree{}, err
	}
	return tree{s, fd}, nil
}

// emptyTree makes a tmpfs with the permissions of the folder that it stands for.
func emptyTree(s spot) (tree, error) {
	var st unix.Stat_t
	if err := unix.Lstat(s.Path, &st); err != nil {
		return tree{}, err
	}
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return tree{}, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", fmt.Sprintf("%o", st.Mode&0o7777)); err != nil {
		return tree{}, fmt.Errorf("fsconfig: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return tree{}, fmt.Errorf("fsconfig: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return tree{}, fmt.Errorf("fsmount: %w", err)
	}
	return tree{s, fd}, nil
}

// is fails unless fd is the file that the host meant.
func (s spot) is(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint64(st.Dev) != s.Dev || st.Ino != s.Ino {
		return errReplaced
	}
	return nil
}

// attach mounts a tree at its place below the new root. In a private folder, which is empty, the place is made first.
func (p *plan) attach(root int, t tree) error {
	made := p.above(t.Path, Private) != ""
	var at int
	var err error
	if made {
		at, err = makePlace(root, t.spot)
	} else {
		at, err = openPlace(root, t.Path, unix.O_PATH)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if !made {
		if err := t.is(at); err != nil {
			return err
		}
	}
	return unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openPlace opens a path below root that leads through no symbolic link.
func openPlace(root int, path string, flags uint64) (int, error) {
	return unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
}

// makePlace opens the place of a spot, and makes what is missing on the way.
func makePlace(root int, s spot) (int, error) {
	var way string
	for part := range strings.SplitSeq(strings.TrimPrefix(filepath.Dir(s.Path), "/"), "/") {
		way = filepath.Join(way, part)
		if _, err := ensure(root, way, true); err != nil {
			return -1, fmt.Errorf("make /%s: %w", way, err)
		}
	}
	if _, err := ensure(root, strings.TrimPrefix(s.Path, "/"), s.Dir); err != nil {
		return -1, err
	}
	return openPlace(root, s.Path, unix.O_PATH)
}

func ensure(root int, path string, dir bool) (made bool, err error) {
	if fd, err := openPlace(root, path, unix.O_PATH); err == nil {
		return false, unix.Close(fd)
	}
	parent := root
	if above := filepath.Dir(path); above != "." {
		if parent, err = openPlace(root, above, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return false, err
		}
		defer unix.Close(parent)
	}
	if dir {
		return true, unix.Mkdirat(parent, filepath.Base(path), 0o755)
	}
	fd, err := unix.Openat(parent, filepath.Base(path), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, err
	}
	return true, unix.Close(fd)
}

// hidden lists what a plan hides, as masks. What lies in a private folder is not there to be hidden, unless a rule brought
// it back.
func (p *plan) hidden() []mask {
	if p == nil {
		return nil
	}
	var out []mask
	for _, s := range p.Spots {
		if s.Access == Hidden {
			out = append(out, mask{Path: s.Path, Dev: s.Dev, Ino: s.Ino})
		}
	}
	return out
}

// absent tells that a path is not there because a private folder took the place of what it lay in.
func (p *plan) absent(path string) bool {
	if p == nil || p.above(path, Private) == "" {
		return false
	}
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
