//go:build integration

package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// nodeSwitch is the database of a node's Open vSwitch, without the switch.
type nodeSwitch struct {
	t       *testing.T
	prefix  string
	dir     string
	address string
}

func startSwitch(t *testing.T) *nodeSwitch {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &nodeSwitch{t: t, prefix: os.Getenv(ovn.PrefixVariable), dir: dir, address: "unix:" + filepath.Join(dir, "db.sock")}
	db := filepath.Join(dir, "conf.db")
	s.run("ovsdb-tool", "create", db, filepath.Join(s.prefix, "usr/share/openvswitch/vswitch.ovsschema"))
	server := s.command("ovsdb-server", "--remote=p"+s.address, "--unixctl="+filepath.Join(dir, "db.ctl"),
		"--log-file="+filepath.Join(dir, "db.log"), "-vconsole:off", "--no-chdir", db)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	wait.Eventually(t, wait.Patience, "the database", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "db.sock"))
		return err
	})
	s.vsctl("--", "init", "--", "add-br", "br-int")
	return s
}

// plug adds the interface of a pod, as the agent and ovn-controller leave it.
func (s *nodeSwitch) plug(name, pod, uid string) {
	s.t.Helper()
	s.vsctl("add-port", "br-int", name, "--", "set", "Interface", name,
		"external_ids:iface-id="+pod, "external_ids:iface-id-ver="+uid, "external_ids:atoll.dev/pod="+pod,
		"external_ids:atoll.dev/sandbox=s", "external_ids:ovn-installed=true")
}

func (s *nodeSwitch) vsctl(args ...string) {
	s.t.Helper()
	s.run("ovs-vsctl", append([]string{"--db=" + s.address, "--no-wait", "--timeout=20"}, args...)...)
}

func (s *nodeSwitch) run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

func (s *nodeSwitch) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.prefix, "bin", program), args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+s.dir, "OVS_LOGDIR="+s.dir)
	return cmd
}
