//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled tells whether fail points are compiled in.
const Enabled = true

const (
	specEnv = "BATON_FAILPOINT"
	dirEnv  = "BATON_FAILPOINT_DIR"
	// A bridge gets an environment of its own, so that it is told by its command line, where it has two more words.
	specArg = "-failpoint="
	dirArg  = "-failpoint-dir="
)

var armed struct {
	sync.Mutex
	read bool
	dir  string
	at   map[string][]int // by name: the passes at which to end
	seen map[string]int
}

// Hit ends the process here, when it was asked to.
func Hit(name string) {
	armed.Lock()
	defer armed.Unlock()
	if !armed.read {
		armed.read = true
		read()
	}
	armed.seen[name]++
	for _, k := range armed.at[name] {
		if armed.seen[name] == k && first(name, k) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			os.Exit(137) // process 1 of a pid namespace cannot be killed from inside; its end is the end of all in it
		}
	}
}

// Args is what a bridge's command line carries so that it knows the places too.
func Args() []string {
	if os.Getenv(specEnv) == "" {
		return nil
	}
	return []string{specArg + os.Getenv(specEnv), dirArg + os.Getenv(dirEnv)}
}

// read fills armed. Whoever misspells an entry must not run a suite that ends nothing.
func read() {
	spec := os.Getenv(specEnv)
	armed.dir = os.Getenv(dirEnv)
	for _, a := range os.Args {
		if v, ok := strings.CutPrefix(a, specArg); ok {
			spec = v
		} else if v, ok := strings.CutPrefix(a, dirArg); ok {
			armed.dir = v
		}
	}
	armed.at, armed.seen = map[string][]int{}, map[string]int{}
	for _, entry := range strings.Split(spec, ",") {
		if entry == "" {
			continue
		}
		name, count, _ := strings.Cut(entry, ":")
		k, err := strconv.Atoi(count)
		if err != nil || k < 1 || armed.dir == "" {
			panic(fmt.Sprintf("%s=%q, %s=%q: want name:k and a folder", specEnv, spec, dirEnv, armed.dir))
		}
		armed.at[name] = append(armed.at[name], k)
	}
}

// first tells whether no process has fired this entry before, and notes that this one does.
func first(name string, k int) bool {
	if _, err := os.Lstat(filepath.Join(armed.dir, "over")); err == nil {
		return false // the case is over, and its end is not to be disturbed
	}
	f, err := os.OpenFile(filepath.Join(armed.dir, fmt.Sprintf("%s.%d", name, k)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	return true
}
