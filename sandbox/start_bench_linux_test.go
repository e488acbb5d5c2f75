package sandbox

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// BenchmarkStart is what a bridge costs until it has entered, beside a program that is just started, by what is asked of
// its launch.
func BenchmarkStart(b *testing.B) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	work := b.TempDir()
	policy := &Filesystem{Name: "workspace-write", ReadOnly: true, Rules: []Rule{{"/tmp", Private}, {work, Writable}}}
	b.Run("program", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, l := range map[string]Launch{"process_group": {Rung: ProcessGroup}, "pid_namespace": {Rung: PIDNamespace}, "filesystem": {Rung: PIDNamespace, Filesystem: policy}} {
		b.Run(name, func(b *testing.B) {
			l.Args, l.Files = []string{Command, "stay"}, []*os.File{null}
			for b.Loop() {
				p, err := Start(context.Background(), l)
				if err != nil {
					b.Fatal(err)
				}
				p.Stop(context.Background())
				p.Release()
			}
		})
	}
}
