package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A bridge is not there for the rest of the program, nor that for it: of what takes long or much, nothing is initialised.
func TestABridgeIsFirst(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	traced := func(arg string) string {
		cmd := exec.Command(program, arg)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "BATON_SANDBOX=")
		out, _ := cmd.CombinedOutput() // nobody launched it, and it says so
		return string(out)
	}
	if out := traced("bridge"); !strings.Contains(out, "containment could not be set up") {
		t.Fatalf("that was no bridge: %s", out)
	} else {
		for _, late := range []string{"mcp-go", "jsonschema", "go-sqlite3", "spf13/cobra"} {
			if strings.Contains(out, late) {
				t.Errorf("%s is initialised in every bridge", late)
			}
		}
	}
	if out := traced("doctor"); !strings.Contains(out, "jsonschema") {
		t.Error("nothing tells what is initialised at all")
	}
}
