package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays other processes when this variable names a role.
const roleVariable = "BATON_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	default:
		if err := play(role, os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

func play(role, path string) error {
	switch role {
	case "wait": // until the other end of stdin is closed
	case "hold":
		h, err := Lock(filepath.Join(filepath.Dir(path), "lock"))
		if err != nil {
			return err
		}
		if _, err := h.Listen(path); err != nil {
			return err
		}
	case "dial", "dial and go":
		conn, err := Dial(context.Background(), path)
		if err != nil {
			return err
		}
		if role == "dial" {
			_, err = conn.Read(make([]byte, 1))
			fmt.Println("read:", err)
		}
		return nil
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// other is another process that plays a role. It is gone when the test is over.
type other struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func start(t *testing.T, role, path string, change ...func(*exec.Cmd)) *other {
	t.Helper()
	o := &other{Cmd: exec.Command(os.Args[0], path)}
	o.Env = append(os.Environ(), roleVariable+"="+role)
	for _, f := range change {
		f(o.Cmd)
	}
	stdin, err := o.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.stdin, o.out = stdin, bufio.NewReader(out)
	if err := o.Start(); err != nil {
		t.Skipf("cannot start another process this way: %v", err)
	}
	t.Cleanup(func() {
		o.Process.Kill()
		o.Wait()
	})
	return o
}

func (o *other) line(t *testing.T) string {
	t.Helper()
	s, err := o.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said %q and then: %v", s, err)
	}
	return s[:len(s)-1]
}

// folder is a private folder with a short path, so that what a test adds decides about the length.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
