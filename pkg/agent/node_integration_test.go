//go:build integration

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/wait"
)

// The test binary plays three parts, told apart by the environment: the test run proper starts itself anew in
// network and mount namespaces of its own, so that nothing of the machine is touched and all ends with the
// process; and it is the CNI plugin when it is executed as one.
const (
	envInside = "ATOLL_TEST_INSIDE"
	envPlugin = "ATOLL_TEST_PLUGIN"
	envPrefix = "ATOLL_OVN_PREFIX"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envPlugin) != "":
		skel.PluginMainFuncs(cni.Plugin(context.Background()), version.All, "test")
	case os.Getenv(envInside) != "":
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			fail("make mounts private: %v", err)
		}
		// Named network namespaces are this node's, too.
		if err := errors.Join(os.MkdirAll("/var/run/netns", 0o755), unix.Mount("tmpfs", "/var/run/netns", "tmpfs", 0, "")); err != nil {
			fail("make a directory for network namespaces: %v", err)
		}
		if lo, err := netlink.LinkByName("lo"); err != nil || netlink.LinkSetUp(lo) != nil {
			fail("bring up lo: %v", err)
		}
		os.Exit(m.Run())
	default:
		os.Exit(runInside())
	}
}

func runInside() int {
	if os.Geteuid() != 0 {
		fail("these tests make network namespaces and need root")
	}
	if os.Getenv(envPrefix) == "" {
		fail("%s must name a directory with OVN and Open vSwitch", envPrefix)
	}
	self, err := os.Executable()
	if err != nil {
		fail("find the test binary: %v", err)
	}
	// The process that a parent-death signal follows is the thread that started it.
	runtime.LockOSThread()
	inside := exec.Command(self, os.Args[1:]...)
	inside.Env = append(os.Environ(), envInside+"=1")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signal.Ignore(syscall.SIGINT)
	if err := inside.Run(); err != nil {
		return max(1, inside.ProcessState.ExitCode())
	}
	return 0
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// node is a machine with Open vSwitch whose br-int switches like any bridge, since no OVN programs it.
type node struct {
	tb   testing.TB
	name string
	// netns is the path of the node's network namespace; empty when the test itself runs there.
	netns string
	// encapIP is the tunnels' address.
	encapIP string
	// datapath is the bridges' datapath_type.
	datapath string
	dir      string
	// central is the directory of OVN's databases.
	central  string
	parts    parts.OVN
	db       string
	ovsdb    *exec.Cmd
	vswitchd *exec.Cmd
	// daemons are those of OVN, by name.
	daemons map[string]*exec.Cmd
}

const (
	testEncapIP     = "192.0.2.1"
	testUnderlayMTU = 1500
)

func newNode(tb testing.TB) *node {
	tb.Helper()
	found, err := parts.LocateOVN(os.Getenv(envPrefix))
	must(tb, err)
	datapath, err := ovn.Datapath()
	must(tb, err)
	n := &node{tb: tb, name: "node1", encapIP: testEncapIP, datapath: datapath, dir: tb.TempDir(), parts: found}
	n.central = n.dir
	n.addUnderlay()
	n.serve()
	return n
}

// serve starts Open vSwitch until the test ends.
func (n *node) serve() {
	n.tb.Helper()
	n.db = "unix:" + filepath.Join(n.dir, "db.sock")
	n.startOVS()
	n.tb.Cleanup(n.stopOVS)
	n.addBridge()
}

// addUnderlay makes the interface that carries the tunnel's address.
func (n *node) addUnderlay() {
	n.tb.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "underlay", testUnderlayMTU
	must(n.tb, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "underlay-peer"}))
	link, err := netlink.LinkByName("underlay")
	must(n.tb, err)
	address, err := netlink.ParseAddr(testEncapIP + "/24")
	must(n.tb, err)
	must(n.tb, netlink.AddrAdd(link, address))
	must(n.tb, netlink.LinkSetUp(link))
	n.tb.Cleanup(func() {
		// It may have gone with the namespace of its other end.
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			n.tb.Error(err)
		}
	})
}

// startOVS starts both daemons; the database is made when there is none.
func (n *node) startOVS() {
	n.tb.Helper()
	conf := filepath.Join(n.dir, "conf.db")
	if _, err := os.Stat(conf); err != nil {
		n.run("ovsdb-tool", "create", conf, n.parts.SwitchSchema)
	}
	n.ovsdb = n.start("ovsdb-server", conf, "--remote=p"+n.db, "--unixctl="+filepath.Join(n.dir, "ovsdb-server.ctl"),
		"--no-chdir", "-vconsole:off", "--log-file="+filepath.Join(n.dir, "ovsdb.log"))
	n.awaitSocket("db.sock")
	n.run("ovs-vsctl", "--no-wait", "--timeout=20", "--db="+n.db,
		"init", "--", "set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip="+n.encapIP)
	n.startSwitch()
}

func (n *node) startSwitch() {
	n.tb.Helper()
	vswitchd := []string{
		n.db, "--unixctl=" + filepath.Join(n.dir, "ovs-vswitchd.ctl"),
		"--no-chdir", "-vconsole:off", "--log-file=" + filepath.Join(n.dir, "vswitchd.log"),
	}
	if n.datapath == ovn.UserspaceDatapath {
		vswitchd = append(vswitchd, "--disable-system")
	}
	n.vswitchd = n.start("ovs-vswitchd", vswitchd...)
}

func (n *node) addBridge() {
	n.tb.Helper()
	n.run("ovs-vsctl", "--timeout=20", "--db="+n.db, "--may-exist", "add-br", "br-int",
		"--", "set", "Bridge", "br-int", "datapath_type="+n.datapath)
}

func (n *node) stopOVS() {
	for _, daemon := range []*exec.Cmd{n.vswitchd, n.ovsdb} {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	}
}

func (n *node) start(name string, args ...string) *exec.Cmd {
	n.tb.Helper()
	argv := append([]string{n.parts.Program(name)}, args...)
	if n.netns != "" {
		argv = append([]string{"nsenter", "--net=" + n.netns}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+n.dir, "OVS_LOGDIR="+n.dir, "OVS_DBDIR="+n.dir,
		"OVN_RUNDIR="+n.dir, "OVN_LOGDIR="+n.dir)
	must(n.tb, cmd.Start())
	return cmd
}

// awaitSocket waits until somebody listens.
func (n *node) awaitSocket(name string) {
	n.tb.Helper()
	wait.Eventually(n.tb, wait.Patience, name, func(context.Context) error {
		conn, err := net.Dial("unix", filepath.Join(n.dir, name))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// run runs a command line tool to its end.
func (n *node) run(name string, args ...string) string {
	n.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.parts.Program(name), args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+n.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// vsctl asks or changes the database the way a person would.
func (n *node) vsctl(args ...string) string {
	n.tb.Helper()
	return n.run("ovs-vsctl", append([]string{"--timeout=20", "--db=" + n.db}, args...)...)
}

// agent is an Agent of this node whose pods the test sets.
func (n *node) agent() *Agent {
	n.tb.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{n.tb}, nil))
	metrics, err := newMetrics(prometheus.NewRegistry())
	must(n.tb, err)
	ovs, err := vswitch.Dial(n.tb.Context(), n.db, "br-int", log)
	must(n.tb, err)
	n.tb.Cleanup(ovs.Close)
	keeper, err := porthole.NewKeeper()
	must(n.tb, err)
	a := newAgent(Config{Node: n.name, OVSDB: n.db, Bridge: "br-int", Bounds: testBounds()}, ovs, keeper, metrics, log)
	a.pods.setSynced()
	a.world.SetInfrastructure(testInfrastructure())
	for _, k := range world.Kinds() {
		a.world.SetSynced(k)
	}
	return a
}

// testWriter sends logs to the test that they belong to.
type testWriter struct{ tb testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.tb.Log(strings.TrimRight(string(line), "\n"))
	return len(line), nil
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
