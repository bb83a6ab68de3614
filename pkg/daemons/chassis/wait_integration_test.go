//go:build integration

package chassis_test

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
)

// TestNoControllerBeforeFlows: while ovs-vswitchd waits for saved flows, nobody can come by a socket that stands in the database,
// and everybody by the bridge's own. It is why flows are restored only where ovn-controller comes by the first: they never take
// the place of newer ones.
func TestNoControllerBeforeFlows(t *testing.T) {
	c := newTools(t)
	m := c.machine(t, "n1", "192.0.2.1")
	m.start(t, chassis.PartDatabase)
	m.serves(t, chassis.PartDatabase)
	vsctl := func(words ...string) {
		t.Helper()
		if _, err := m.VSCtl(t.Context(), append([]string{"--no-wait"}, words...)...); err != nil {
			t.Fatal(err)
		}
	}
	door := m.dir + "/br-int.controller"
	vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true",
		"--", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev", "fail_mode=secure",
		"--", "set-controller", "br-int", "punix:"+door)
	daemon := exec.Command("nsenter", "--net=/var/run/netns/"+m.inside, c.found.Program("ovs-vswitchd"), "unix:"+m.dir+"/db.sock",
		"--disable-system",
		"--unixctl="+m.dir+"/ovs-vswitchd.ctl", "--pidfile="+m.dir+"/ovs-vswitchd.pid", "--no-chdir", "-vconsole:off", "-vsyslog:off")
	daemon.Env = append(os.Environ(), "OVS_RUNDIR="+m.dir)
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }()
	dial := func(socket string) error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	eventually(t, "the bridge's own socket is open", func() error { return dial(m.dir + "/br-int.mgmt") })
	// What it has configured by now it has configured with the wait.
	if _, err := m.VSCtl(t.Context(), "set", "Bridge", "br-int", "external_ids:seen=yes"); err != nil {
		t.Fatal(err)
	}
	if err := dial(door); err == nil {
		t.Error("a controller can come before the flows")
	}
	vsctl("remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")
	eventually(t, "the socket of the database is open", func() error { return dial(door) })
}
