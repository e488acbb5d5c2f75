package sandbox

// OpenFiles is who has files open, as the machine showed it at one moment. The zero value knows nobody.
type OpenFiles struct {
	locks map[fileID]int // by file: the process that holds a write lock on it
}

// fileID names a file as the kernel's list of locks does.
type fileID struct {
	dev, inode uint64
}

// Writer tells which process of this user holds a lock on a file, or else has it open for writing, with the name of its
// program; 0 where none can be seen: on systems without /proc, and where the process is hidden from this one.
func (o OpenFiles) Writer(path string) (pid int, program string) { return o.writer(path) }

// LookAtFiles reads the locks of the machine.
func LookAtFiles() OpenFiles { return lookAtFiles() }
