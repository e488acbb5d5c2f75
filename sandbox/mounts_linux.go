package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// arrange gives the new mount namespace its files, its own /proc, and hides the masked paths.
func arrange(s setup) error {
	// Private, not slave: what the host mounts later must not uncover a mask.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if s.Plan != nil {
		if err := furnish(s.Plan); err != nil {
			return err
		}
	}
	list := slices.Concat(s.Mask, s.Plan.hidden())
	slices.SortFunc(list, func(a, b mask) int { return cmp.Compare(a.Path, b.Path) })
	var done []string
	for _, m := range list {
		if slices.ContainsFunc(done, func(d string) bool { return m.Path == d || strings.HasPrefix(m.Path, d+"/") }) {
			continue // already out of reach, for us too
		}
		if s.Plan.absent(m.Path) {
			continue
		}
		if err := hide(m); err != nil {
			return fmt.Errorf("mask %s: %w", m.Path, err)
		}
		done = append(done, m.Path)
	}
	if s.Trial {
		if err := blank("/"); err != nil { // shows that a mask could be mounted
			return fmt.Errorf("mount a tmpfs: %w", err)
		}
	}
	if s.Root {
		introduce()
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// hide covers exactly the file that the host named: the path is opened once, compared, and mounted upon through its
// descriptor.
func hide(m mask) error {
	fd, err := unix.Open(m.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint64(st.Dev) != m.Dev || st.Ino != m.Ino {
		return errReplaced
	}
	target := fmt.Sprintf("/proc/self/fd/%d", fd)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return blank(target)
	}
	return unix.Mount("/dev/null", target, "", unix.MS_BIND, "") // connecting to a masked socket is refused
}

// blank mounts an empty directory that nobody can list, enter or write.
func blank(target string) error {
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0000,size=4k,nr_inodes=1")
}

// introduce gives the inner user of a root host the name and home of root. Otherwise ssh refuses to run ("no user exists
// for uid 1000"), or takes the keys of whoever has that uid outside, whatever HOME says. It is a convenience: where it
// cannot be done, the session works without.
func introduce() {
	// The old /proc is covered next, so it can lend its place to the files that are bound from here.
	if unix.Mount("tmpfs", "/proc", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=1m") != nil {
		return
	}
	defer unix.Unmount("/proc", unix.MNT_DETACH)
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		line, ok := renumber(string(text))
		copied := "/proc/" + strings.ReplaceAll(file[1:], "/", "-")
		if !ok || os.WriteFile(copied, []byte(line+string(text)), 0o644) != nil {
			continue
		}
		if unix.Mount(copied, file, "", unix.MS_BIND, "") == nil {
			unix.Mount("", file, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}
	}
}

// renumber returns the line of id 0 of a passwd or group file, with the inner id in its place.
func renumber(text string) (line string, ok bool) {
	for l := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(l, "\n"), ":")
		if len(f) < 4 || f[2] != "0" {
			continue
		}
		f[2] = fmt.Sprint(innerID)
		if len(f) >= 7 { // passwd: the group too
			f[3] = f[2]
		}
		return strings.Join(f, ":") + "\n", true
	}
	return "", false
}
