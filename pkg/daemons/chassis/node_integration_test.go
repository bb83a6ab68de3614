//go:build integration

package chassis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/wait"
)

const (
	namespace = "atoll-system"
	cable     = "underlay"
	patience  = 60 * time.Second
)

// cluster is an API server, OVN's central programs, and atoll-ovn.
type cluster struct {
	central *ovn.Central
	api     *apiserver.Server
	kube    kubernetes.Interface
	found   parts.OVN
	program string
	port    int
}

// newTools is a cluster without anything that runs.
func newTools(t *testing.T) *cluster {
	t.Helper()
	found, err := parts.LocateOVN(os.Getenv(ovn.PrefixVariable))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{found: found, program: os.Getenv(programVariable)}
	if c.program == "" {
		if c.program, err = built(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// programVariable names the environment variable with the path of atoll-ovn, for where it cannot be built.
const programVariable = "ATOLL_OVN_PROGRAM"

// built is atoll-ovn, built once.
var built = sync.OnceValues(func() (string, error) {
	program := filepath.Join(scratch, "atoll-ovn")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/atoll-ovn").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build atoll-ovn: %w\n%s", err, out)
	}
	return program, nil
})

// scratch is a directory for the time of all tests.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "chassis"); err != nil {
		panic(err)
	}
	m.Run()
	_ = os.RemoveAll(scratch)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := newTools(t)
	c.central, c.api = ovn.Start(t, true), apiserver.Start(t)
	var err error
	if c.kube, err = kubernetes.NewForConfig(c.api.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c.port = c.listen(t)
	if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.record(t, c.member(c.port))
	return c
}

func (c *cluster) environment() []string {
	return append(os.Environ(), "PATH="+strings.Join(c.found.Dirs, ":")+":"+os.Getenv("PATH"))
}

// run runs a program to its end, and returns what it prints.
func (c *cluster) run(t *testing.T, program string, arguments ...string) (string, error) {
	t.Helper()
	path := program
	if !filepath.IsAbs(program) {
		path = c.found.Program(program)
	}
	if !filepath.IsAbs(path) { // one that a node does not need
		path = filepath.Join(c.found.Dirs[0], program)
	}
	cmd := exec.CommandContext(t.Context(), path, arguments...)
	cmd.Env = c.environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// database is a database with a mark in its last record, if it is Open vSwitch's.
func (c *cluster) database(t *testing.T, schema string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "made.db")
	steps := [][]string{{"create", file, schema}}
	if !strings.Contains(schema, "ovn-") {
		steps = append(steps,
			[]string{"transact", file, `["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{}}]`},
			[]string{
				"transact", file, `["Open_vSwitch",{"op":"update","table":"Open_vSwitch","where":[],"row":{"external_ids":["map",[["mark","here"]]]}}]`,
			})
	}
	for _, words := range steps {
		if out, err := c.run(t, "ovsdb-tool", words...); err != nil || strings.Contains(out, "error") {
			t.Fatalf("ovsdb-tool %v: %v\n%s", words, err, out)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// listen has the southbound database listen at one more port of loopback.
func (c *cluster) listen(t *testing.T) int {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	if _, err := c.central.Ask(t.Context(), "sb", "ovsdb-server/add-remote", fmt.Sprintf("ptcp:%d:127.0.0.1", port)); err != nil {
		t.Fatal(err)
	}
	return port
}

func (c *cluster) member(port int) string { return fmt.Sprintf("tcp:127.0.0.1:%d", port) }

// record writes the ConfigMap that names the southbound database's members.
func (c *cluster) record(t *testing.T, addresses ...string) {
	t.Helper()
	var members []map[string]string
	for i, a := range addresses {
		members = append(members, map[string]string{"node": "m" + strconv.Itoa(i), "serverID": "s", "address": a})
	}
	text, err := json.Marshal(map[string]any{"clusterID": "c", "members": members})
	if err != nil {
		t.Fatal(err)
	}
	maps := c.kube.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: chassis.RecordName}, Data: map[string]string{"sb": string(text)}}
	if _, err = maps.Update(t.Context(), wanted, metav1.UpdateOptions{}); err != nil {
		_, err = maps.Create(t.Context(), wanted, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a node whose parts run by the subcommands of atoll-ovn, as they do in containers.
type machine struct {
	*ovn.Chassis
	cluster *cluster
	name    string
	dir     string
	tunnel  netip.Addr
	inside  string

	mu   sync.Mutex
	runs map[string]*run
	said map[string]*said
}

// said is what a program says. It can be read while it still speaks.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

type run struct {
	cmd   *exec.Cmd
	ended chan error
}

func (c *cluster) machine(t *testing.T, name, tunnel string) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "chassis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machine{
		cluster: c, name: name, dir: dir, tunnel: netip.MustParseAddr(tunnel), inside: fmt.Sprintf("chassis-%s-%d", name, os.Getpid()),
		runs: map[string]*run{}, said: map[string]*said{},
	}
	handle := named(t, m.inside)
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	m.Chassis, err = ovn.Adopt(ovn.ChassisOptions{Dir: dir, Name: name, Datapath: datapath, Tunnel: m.tunnel}, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	t.Cleanup(func() {
		for _, part := range parts3() {
			_ = m.stop(t, part, syscall.SIGKILL)
		}
		if t.Failed() {
			for part, words := range m.said {
				t.Logf("%s of %s said:\n%s", part, name, tail(words.String(), 200))
			}
		}
	})
	return m
}

func parts3() []string {
	return []string{chassis.PartController, chassis.PartSwitch, chassis.PartDatabase}
}

func tail(text string, count int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-count):], "\n")
}

// named makes a network namespace with a name.
func named(t *testing.T, name string) netns.NsHandle {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("make network namespace: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = netns.DeleteNamed(name) })
	handle, err := netns.GetFromName(name)
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// join lays a cable between two nodes, on which each has its tunnel's address.
func join(t *testing.T, a, b *machine) {
	t.Helper()
	handles := []netns.NsHandle{}
	for _, m := range []*machine{a, b} {
		h, err := netns.GetFromName(m.inside)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		handles = append(handles, h)
	}
	first, err := netlink.NewHandleAt(handles[0], unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = cable, 1600
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: cable, PeerNamespace: netlink.NsFd(int(handles[1])), PeerMTU: 1600}
	if err := first.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	for i, m := range []*machine{a, b} {
		err := m.Do(func() error {
			link, err := netlink.LinkByName(cable)
			if err != nil {
				return err
			}
			if err := netdev.DisableTxChecksums(cable); err != nil {
				return err
			}
			address := &netlink.Addr{IPNet: &net.IPNet{IP: m.tunnel.AsSlice(), Mask: net.CIDRMask(24, 32)}}
			return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
		})
		if err != nil {
			t.Fatalf("plug cable %d: %v", i, err)
		}
	}
}

// start runs a part, and waits until it is healthy.
func (m *machine) start(t *testing.T, part string) {
	t.Helper()
	arguments := []string{"--net=/var/run/netns/" + m.inside, m.cluster.program, part}
	datapath := func() {
		if kind, _ := ovn.Datapath(); kind == ovn.UserspaceDatapath {
			arguments = append(arguments, "--datapath=userspace")
		}
	}
	switch part {
	case chassis.PartDatabase:
		arguments = append(arguments, "--database="+m.dir+"/conf.db", "--schema="+m.cluster.found.SwitchSchema)
	case chassis.PartSwitch:
		datapath()
		if kind, _ := ovn.Datapath(); kind == ovn.UserspaceDatapath {
			arguments = append(arguments, "--underlay="+cable)
		}
	case chassis.PartController:
		// It needs the API server and the southbound database, which are at the test's loopback.
		arguments[0] = "--net=/proc/self/ns/net"
		datapath()
		arguments = append(arguments, "--node-name="+m.name, "--tunnel-address="+m.tunnel.String(), "--kubeconfig="+m.cluster.api.Kubeconfig(),
			"--plaintext-for-tests")
	}
	arguments = append(arguments, "--run-dir="+m.dir, "--ovn-run-dir="+m.dir)
	cmd := exec.Command("nsenter", arguments...)
	cmd.Env = m.cluster.environment()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said[part] == nil {
		m.said[part] = &said{}
	}
	cmd.Stdout, cmd.Stderr = m.said[part], m.said[part]
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &run{cmd, make(chan error, 1)}
	go func() { r.ended <- cmd.Wait() }()
	m.runs[part] = r
}

// words are all that a part and its daemon said.
func (m *machine) words(part string) string { return m.said[part].String() }

// stop ends a part by a signal, and returns its exit status.
func (m *machine) stop(t *testing.T, part string, how syscall.Signal) error {
	t.Helper()
	m.mu.Lock()
	r := m.runs[part]
	delete(m.runs, part)
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	_ = r.cmd.Process.Signal(how)
	select {
	case err := <-r.ended:
		return err
	case <-wait.Context(t, patience).Done():
		_ = r.cmd.Process.Kill()
		return fmt.Errorf("%s of %s does not end", part, m.name)
	}
}

// daemon is the process of a part's daemon.
func (m *machine) daemon(part string) (int, error) {
	name := map[string]string{
		chassis.PartDatabase: "ovsdb-server", chassis.PartSwitch: "ovs-vswitchd", chassis.PartController: "ovn-controller",
	}[part]
	text, err := os.ReadFile(m.dir + "/" + name + ".pid")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// serves waits until parts serve.
func (m *machine) serves(t *testing.T, which ...string) {
	t.Helper()
	for _, part := range which {
		eventually(t, part+" of "+m.name+" serves", func() error {
			return chassis.Check(t.Context(), chassis.Directories{Switch: m.dir, OVN: m.dir}, part, chassis.Serves)
		})
	}
}

func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	wait.Eventually(t, patience, what, func(context.Context) error { return f() })
}
