package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/sandbox"
)

// databases are the sockets of OVN's databases of one member, as the machine's root reaches them: by links to where the
// volume of the member's pod is in its node's file system.
type databases struct{ dir string }

// Sockets of a member, by the names that OVN's tools expect.
const (
	northboundSocket = "ovnnb_db.sock"
	southboundSocket = "ovnsb_db.sock"
)

// findDatabases waits for a member of the databases, and links its sockets. They stay where they are while containers of
// the pod are started again.
func (c *Cluster) findDatabases(ctx context.Context) (*databases, error) {
	dir, err := os.MkdirTemp("", "atoll-db-") // short: the link is the address of a unix socket
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	d := &databases{dir: dir}
	pods, err := c.PodsOf(ctx, Daemon{Place: sandbox.Central, Name: "ovn-nb"})
	if err != nil {
		return d, err
	}
	first, err := c.Box.FirstProcess(ctx, pods[0].Spec.NodeName)
	if err != nil {
		return d, err
	}
	volume := fmt.Sprintf("/proc/%d/root/var/lib/kubelet/pods/%s/volumes/kubernetes.io~empty-dir/run", first, pods[0].UID)
	for _, socket := range []string{northboundSocket, southboundSocket} {
		if err := os.Symlink(filepath.Join(volume, socket), filepath.Join(dir, socket)); err != nil {
			return d, fmt.Errorf("link socket: %w", err)
		}
		if _, err := os.Stat(filepath.Join(dir, socket)); err != nil {
			return d, fmt.Errorf("find socket of a member: %w", err)
		}
	}
	return d, nil
}

func (d *databases) remove() { _ = os.RemoveAll(d.dir) }

// NBAddress is a member's northbound database, as a process of the machine's root reaches it.
func (c *Cluster) NBAddress() string {
	return "unix:" + filepath.Join(c.databases.dir, northboundSocket)
}

// SBAddress is a member's southbound database, as a process of the machine's root reaches it.
func (c *Cluster) SBAddress() string {
	return "unix:" + filepath.Join(c.databases.dir, southboundSocket)
}

// ByDatabases is a call of the command line where it reaches the API server and, by a member's sockets, the databases.
func (c *Cluster) ByDatabases(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	words := append([]string{"--net=/run/netns/" + c.Box.Namespace(sandbox.Central), filepath.Join(c.Options.Bin, "atoll")}, args...)
	return exec.CommandContext(ctx,
		"nsenter", append(words, "--kubeconfig="+kubeconfig, "--nb-address="+c.NBAddress(), "--sb-address="+c.SBAddress())...)
}

// AtollByDatabases is what such a call prints. What it says when it fails is in the error.
func (c *Cluster) AtollByDatabases(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	cmd := c.ByDatabases(ctx, kubeconfig, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("run atoll %q: %w: %s", args, err, stderr.String())
	}
	return string(out), err
}

// ctlWithin is how long one of OVN's tools may take.
const ctlWithin = time.Minute

// NBCtl runs ovn-nbctl on the northbound database, and returns what it prints.
func (c *Cluster) NBCtl(t *testing.T, args ...string) string {
	t.Helper()
	return c.ctl(t, "ovn-nbctl", c.NBAddress(), args)
}

// SBCtl runs ovn-sbctl on the southbound database, and returns what it prints.
func (c *Cluster) SBCtl(t *testing.T, args ...string) string {
	t.Helper()
	return c.ctl(t, "ovn-sbctl", c.SBAddress(), args)
}

func (c *Cluster) ctl(t *testing.T, tool, address string, args []string) string {
	t.Helper()
	ctx, cancel := AfterTest()
	defer cancel()
	out, err := c.Ctl(ctx, tool, address, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Ctl runs one of OVN's tools on a database, and returns what it prints.
func (c *Cluster) Ctl(ctx context.Context, tool, address string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ctlWithin)
	defer cancel()
	for dir := range strings.SplitSeq(c.Box.Path(), ":") {
		program := filepath.Join(dir, tool)
		if _, err := os.Stat(program); err != nil {
			continue
		}
		// A member that does not lead answers as well.
		out, err := exec.CommandContext(ctx, program, append([]string{"--db=" + address, "--no-leader-only"}, args...)...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("run %s %q: %w\n%s", tool, args, err, out)
		}
		return string(out), nil
	}
	return "", fmt.Errorf("find %s in %s: it is not there", tool, c.Box.Path())
}
