package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/batonmcp/baton/sandbox"
	"github.com/batonmcp/baton/sessions"
)

// secrets are where programs keep what a user logs in with, below the home folder.
var secrets = []string{
	".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".vault-token", ".config/op",
	".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".oci", ".kube", ".docker", ".config/containers/auth.json",
	".terraform.d/credentials.tfrc.json", ".config/rclone", ".s3cfg", ".boto",
	".netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
	".npmrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
	".pgpass", ".my.cnf", ".mylogin.cnf",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi",
}

// sockets lead to programs that would do for an agent what it may not do itself.
var sockets = []string{"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock",
	"/run/dbus/system_bus_socket", "/run/systemd/private", "/run/snapd.socket"}

// hide hides what no session needs: credentials, those of other agents among them, and sockets.
func (c *compiler) hide() error {
	var paths []string
	if c.home != "" {
		for _, name := range slices.Concat(secrets, c.othersSecrets()) {
			paths = append(paths, filepath.Join(c.home, name))
		}
	}
	paths = append(paths, sockets...)
	if !c.Around {
		paths = append(paths, c.runtimeDir()) // the user's agents, keyrings and buses
	}
	for _, path := range paths {
		if err := c.hideOne(path); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) hideOne(path string) error {
	real := c.real(path)
	if real == "" || real == "/" || within(c.home, real) || c.below(sandbox.Hidden, real) {
		return nil
	}
	for _, dir := range append([]string{c.Cwd}, c.Roots...) {
		if within(c.real(dir), real) {
			return sessions.Errorf(sessions.CodeInvalidParams, "%.200q lies in %s, which is hidden under sandbox %s", dir, path, c.Sandbox).
				Do("work in another directory, or ask for sandbox %s", sessions.SandboxFullAccess)
		}
	}
	if fi, err := os.Lstat(real); err != nil || fi.Mode()&(os.ModeDevice|os.ModeNamedPipe) != 0 {
		return nil
	}
	for own, a := range c.rules {
		if a == sandbox.Writable && within(own, real) {
			return nil // the agent keeps its own state there
		}
	}
	c.rules[real] = sandbox.Hidden
	return nil
}

func (c *compiler) runtimeDir() string { return "/run/user/" + strconv.Itoa(os.Getuid()) }

func (c *compiler) hole(format string, args ...any) {
	if said := fmt.Sprintf(format, args...); !slices.Contains(c.holes, said) {
		c.holes = append(c.holes, said)
	}
}
