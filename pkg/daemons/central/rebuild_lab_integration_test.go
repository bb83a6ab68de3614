//go:build integration

package central

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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/stream"
)

// whole is a cluster as it is installed: three members that ask for their certificates, a controller, and two nodes with pods.
type whole struct {
	*lab
	members    []*place
	controller *exec.Cmd
	nodes      []*switched
}

// switched is a node with a switch.
type switched struct {
	*place
	*ovn.Chassis
	dir    string
	tunnel netip.Addr
	parts  []*exec.Cmd
}

func newWhole(t *testing.T) *whole {
	t.Helper()
	w := &whole{lab: newLab(t)}
	for _, dir := range []string{"crds", "rbac", "config", "ovn-node"} {
		apply := w.server.Apply
		if dir == "crds" {
			apply = w.server.Establish
		}
		must(t, apply(t.Context(), filepath.Join("..", "..", "..", "dist", dir)))
	}
	for n := range 3 {
		w.members = append(w.members, w.member(n+1))
	}
	for _, what := range []string{"nb", "sb", "northd"} {
		for _, p := range w.members {
			p.start(what)
		}
	}
	w.control()
	for _, kind := range []Kind{Northbound, Southbound} {
		w.until(string(kind)+" of three is ready", w.ready(kind, w.members...))
	}
	for n := range 2 {
		w.nodes = append(w.nodes, w.switched(n+4))
	}
	w.cable()
	for _, n := range w.nodes {
		for _, part := range []string{"switch-database", "switch", "controller"} {
			n.parts = append(n.parts, n.begin(part))
		}
	}
	for _, n := range w.nodes {
		w.until("ovn-controller of "+n.name+" is connected", n.connected)
	}
	return w
}

// member is a control plane node that asks for its certificates.
func (w *whole) member(number int) *place {
	p := w.place(number, authority{})
	p.asks = w.kubeconfig(p.name+".member",
		w.server.As("system:serviceaccount:atoll-system:atoll-ovn-central", "atoll.dev:node:"+p.name, "system:serviceaccounts"))
	return p
}

// build builds a program of ours.
func (l *lab) build(name string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if out, err := exec.Command("go", "build", "-o", path, "github.com/atoll-net/atoll/cmd/"+name).CombinedOutput(); err != nil {
		l.t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// control runs the controller.
func (w *whole) control() {
	t := w.t
	as := w.kubeconfig("controller.kubeconfig", w.server.As("system:serviceaccount:atoll-system:atoll-controller", "system:serviceaccounts"))
	log, err := os.Create(filepath.Join(w.dir, "controller.log"))
	must(t, err)
	w.controller = inNamespace(w.hub, w.ovn, w.build("atoll-controller"), "--kubeconfig="+as, "--nb-record",
		"--metrics-address=127.0.0.1:9410", "--chassis-gone-after=2s")
	w.controller.Stdout, w.controller.Stderr = log, log
	w.run(w.controller)
	t.Cleanup(func() {
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			lines := strings.Split(string(text), "\n")
			t.Logf("controller:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
}

// run starts a program that ends with the test.
func (l *lab) run(cmd *exec.Cmd) {
	l.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	l.starter <- func() { started <- cmd.Start() }
	must(l.t, <-started)
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// switched makes a node whose switch does not run yet.
func (w *whole) switched(number int) *switched {
	p := w.place(number, authority{})
	p.asks = w.kubeconfig(p.name+".node",
		w.server.As("system:serviceaccount:atoll-system:atoll-ovn-node", "atoll.dev:node:"+p.name, "system:serviceaccounts"))
	n := &switched{place: p, tunnel: netip.AddrFrom4([4]byte{192, 0, 2, byte(number)})}
	var err error
	n.dir, err = os.MkdirTemp("", "node")
	must(w.t, err)
	w.t.Cleanup(func() { _ = os.RemoveAll(n.dir) })
	inside, err := netns.GetFromName(p.netns)
	must(w.t, err)
	datapath, err := ovn.Datapath()
	must(w.t, err)
	n.Chassis, err = ovn.Adopt(ovn.ChassisOptions{Dir: n.dir, Name: p.name, Datapath: datapath, Tunnel: n.tunnel}, inside)
	must(w.t, err)
	w.t.Cleanup(n.Stop)
	return n
}

// cable joins the two nodes' networks for tunnels.
func (w *whole) cable() {
	ends := make([]netns.NsHandle, 2)
	for i, n := range w.nodes {
		var err error
		ends[i], err = netns.GetFromName(n.netns)
		must(w.t, err)
		defer ends[i].Close()
	}
	first, err := netlink.NewHandleAt(ends[0])
	must(w.t, err)
	defer first.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "underlay", 1600
	must(w.t, first.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "underlay", PeerNamespace: netlink.NsFd(int(ends[1])), PeerMTU: 1600}))
	for _, n := range w.nodes {
		must(w.t, n.Do(func() error {
			link, err := netlink.LinkByName("underlay")
			if err != nil {
				return err
			}
			at := &netlink.Addr{IPNet: &net.IPNet{IP: n.tunnel.AsSlice(), Mask: net.CIDRMask(24, 32)}}
			return errors.Join(netdev.DisableTxChecksums("underlay"), netlink.AddrAdd(link, at), netlink.LinkSetUp(link))
		}))
	}
}

// begin starts a part of the node's switch.
func (n *switched) begin(part string) *exec.Cmd {
	args := []string{part, "--run-dir=" + n.dir, "--ovn-run-dir=" + n.dir}
	userspace := false
	if kind, _ := ovn.Datapath(); kind == ovn.UserspaceDatapath {
		userspace = true
	}
	switch {
	case part == "switch-database":
		args = append(args, "--database="+n.dir+"/conf.db", "--schema="+filepath.Join(n.ovn, "usr/share/openvswitch/vswitch.ovsschema"))
	case userspace:
		args = append(args, "--datapath=userspace")
	}
	switch part {
	case "switch":
		if userspace {
			args = append(args, "--underlay=underlay")
		}
	case "controller":
		args = append(args, "--node-name="+n.name, "--tunnel-address="+n.tunnel.String(),
			"--kubeconfig="+n.asks, "--certificates="+n.path("certificates"))
	}
	cmd := n.command(n.program, args...)
	log, err := os.OpenFile(n.path(part+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(n.t, err)
	cmd.Stdout, cmd.Stderr = log, log
	n.lab.run(cmd)
	n.t.Cleanup(func() {
		_ = log.Close()
		if n.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			lines := strings.Split(string(text), "\n")
			n.t.Logf("%s %s:\n%s", n.name, part, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return cmd
}

func (n *switched) connected() bool {
	status, err := ask(n.t.Context(), filepath.Join(n.dir, "ovn-controller.ctl"), "connection-status")
	return err == nil && strings.TrimSpace(status) == "connected"
}

// local runs OVN's ctl of a database on a member's socket.
func (w *whole) local(kind Kind, args ...string) (string, error) {
	var sockets []string
	for _, p := range w.members {
		sockets = append(sockets, "unix:"+databaseSocket(p.run(), kind))
	}
	cmd := exec.Command(filepath.Join(w.ovn, "bin", "ovn-"+string(kind)+"ctl"),
		append([]string{"--no-leader-only", "--timeout=10", "--db=" + strings.Join(sockets, ",")}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// network makes a Network with a namespace of its name.
func (w *whole) network(name string) {
	objects, err := dynamic.NewForConfig(w.server.RESTConfig())
	must(w.t, err)
	_, err = objects.Resource(schema.GroupVersionResource{Group: "atoll.dev", Version: "v1alpha1", Resource: "networks"}).Create(
		w.t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "atoll.dev/v1alpha1", "kind": "Network", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"type": "vpc", "subnets": []any{map[string]any{"name": "front", "cidrs": []any{"10.0.0.0/24"}}}},
		}}, metav1.CreateOptions{})
	must(w.t, err)
	_, err = w.store.Client.CoreV1().Namespaces().Create(w.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"atoll.dev/network": name}}},
		metav1.CreateOptions{})
	must(w.t, err)
}

// pod makes a pod on a node, as far as OVN is concerned, and returns its address.
func (w *whole) pod(namespace, name string, on *switched) (*ovn.Guest, netip.Addr) {
	w.t.Helper()
	made, err := w.store.Client.CoreV1().Pods(namespace).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: on.name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	must(w.t, err)
	var port, mac string
	var address netip.Addr
	w.until("pod "+name+" has a port", func() bool {
		out, err := w.local(Northbound, "--format=json", "--columns=name,addresses", "find",
			"Logical_Switch_Port", "options:iface-id-ver="+string(made.UID))
		var rows struct{ Data [][]any }
		if err != nil || json.Unmarshal([]byte(out), &rows) != nil || len(rows.Data) == 0 {
			return false
		}
		port = rows.Data[0][0].(string)
		fields := strings.Fields(fmt.Sprint(rows.Data[0][1]))
		if len(fields) < 2 {
			return false
		}
		mac = fields[0]
		address, err = netip.ParseAddr(fields[1])
		return err == nil
	})
	g, err := on.Plug(w.t.Context(), ovn.Interface{
		Port: port, UID: string(made.UID), MAC: mac, Addresses: []netip.Prefix{netip.PrefixFrom(address, 24)},
	})
	must(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := on.Installed(ctx, g); err != nil {
		w.t.Fatalf("pod %s: %v", name, err)
	}
	return g, address
}

// crowd makes n pods in Networks of 200, on both nodes. Their interfaces are the switch's own, and nobody sends from them.
func (w *whole) crowd(n int) {
	const of = 200
	client, err := kubernetes.NewForConfig(w.server.RESTConfig())
	must(w.t, err)
	for first := 0; first < n; first += of {
		name := fmt.Sprintf("crowd-%d", first/of)
		w.network(name)
		for i := first; i < min(first+of, n); i++ {
			_, err := client.CoreV1().Pods(name).Create(w.t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
				Spec:       corev1.PodSpec{NodeName: w.nodes[i%len(w.nodes)].name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
			}, metav1.CreateOptions{})
			must(w.t, err)
		}
	}
	if n == 0 {
		return
	}
	up := w.portsUp()
	var rows struct{ Data [][3]any }
	w.until(fmt.Sprintf("%d pods have ports", n), func() bool {
		out, err := w.local(Northbound, "--format=json", "--columns=name,_uuid,options", "list", "Logical_Switch_Port")
		if err != nil || json.Unmarshal([]byte(out), &rows) != nil {
			return false
		}
		rows.Data = slices.DeleteFunc(rows.Data, func(row [3]any) bool {
			return !strings.HasPrefix(fmt.Sprint(row[0]), "crowd-") || portOption(row[2], "iface-id-ver") == ""
		})
		return len(rows.Data) == n
	})
	words := map[string][]string{}
	for i, row := range rows.Data {
		node, end := portOption(row[2], "requested-chassis"), fmt.Sprintf("crowd%d", i)
		words[node] = append(words[node], "--", "add-port", "br-int", end, "--", "set", "Interface", end, "type=internal",
			fmt.Sprintf("external_ids:iface-id=%q", row[0]), "external_ids:iface-id-ver="+portOption(row[2], "iface-id-ver"))
	}
	for _, node := range w.nodes {
		_, err := node.VSCtl(w.t.Context(), words[node.name]...)
		must(w.t, err)
	}
	w.until(fmt.Sprintf("%d ports are up", n), func() bool { return w.portsUp() == up+n })
}

// portOption is an option of a port, of how ovn-nbctl prints all of them as JSON: ["map",[["key","value"],...]].
func portOption(options any, key string) string {
	outer, _ := options.([]any)
	if len(outer) != 2 {
		return ""
	}
	pairs, _ := outer[1].([]any)
	for _, pair := range pairs {
		if words, _ := pair.([]any); len(words) == 2 && words[0] == key {
			return fmt.Sprint(words[1])
		}
	}
	return ""
}

// arrives waits until datagrams from a guest to another arrive.
func (w *whole) arrives(from, to *ovn.Guest, address netip.Addr) {
	w.t.Helper()
	port := uint16(9000)
	w.until("datagrams arrive at "+address.String(), func() bool {
		port++ // Each stream keeps its own until the test ends.
		s := stream.New(w.t, from.Do, to.Do, netip.AddrPortFrom(address, port), time.Millisecond)
		err := s.Wait(100)
		return len(s.End()) == 0 && err == nil
	})
}

// loss is how many datagrams were lost, and the longest time in a row, in ms.
func loss(lost []int64) (count, gap int) {
	slices.Sort(lost)
	for i := 0; i < len(lost); {
		j := i
		for j+1 < len(lost) && lost[j+1] == lost[j]+1 {
			j++
		}
		gap = max(gap, j-i+1)
		i = j + 1
	}
	return len(lost), gap
}
