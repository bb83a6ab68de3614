//go:build integration

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/ovn"
)

// realNode is a node with a real ovn-controller and Open vSwitch, behind what says to be an API server. Pod red/web-0 has two
// interfaces, red/web-1 is beside it, and blue/web-0 has the addresses of the first on a switch of its own.
type realNode struct {
	t       *testing.T
	central *ovn.Central
	chassis *ovn.Chassis
	config  string
	// keys are, for each logical port, those of its switch and of itself.
	keys map[string]logicalPort
}

func newRealNode(t *testing.T) *realNode {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	n := &realNode{t: t, central: ovn.Start(t, true), keys: map[string]logicalPort{}}
	n.nb("init")
	if _, err := n.central.SBCtl(t.Context(), "init"); err != nil {
		t.Fatal(err)
	}
	if n.chassis, err = ovn.StartChassis(t.Context(),
		ovn.ChassisOptions{Dir: dir, Name: "n1", Southbound: n.central.SBAddress(), Datapath: datapath}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.chassis.Stop)
	n.nb("ls-add", "red-front", "--", "ls-add", "red-back", "--", "ls-add", "blue-front")
	n.nb("lr-add", "red", "--", "lrp-add", "red", "red-to-front", "0a:00:00:00:01:01", "10.0.0.1/24",
		"--", "lsp-add", "red-front", "front-to-red", "--", "lsp-set-type", "front-to-red", "router", "--", "lsp-set-options", "front-to-red",
		"router-port=red-to-front", "--", "lsp-set-addresses", "front-to-red", "router")
	var guests []*ovn.Guest
	for i, p := range []struct{ on, port, pod, address string }{
		{"red-front", "red/web-0", "red/web-0", "10.0.0.2"},
		{"red-back", "red/web-0/back", "red/web-0", "10.0.1.2"},
		{"red-front", "red/web-1", "red/web-1", "10.0.0.3"},
		{"blue-front", "blue/web-0", "blue/web-0", "10.0.0.2"},
		{"blue-front", "blue/web-1", "blue/web-1", "10.0.0.3"},
	} {
		mac := "0a:00:00:00:00:0" + p.address[len(p.address)-1:]
		n.nb("lsp-add", p.on, p.port, "--", "lsp-set-addresses", p.port, mac+" "+p.address, "--", "lsp-set-port-security", p.port,
			mac+" "+p.address)
		uid := "uid-of-" + strings.ReplaceAll(p.pod, "/", "-")
		g, err := n.chassis.Plug(t.Context(), ovn.Interface{
			Port: p.port, UID: uid, MAC: mac, Addresses: []netip.Prefix{netip.MustParsePrefix(p.address + "/24")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.chassis.VSCtl(t.Context(), "set", "Interface", fmt.Sprintf("guest%d", i+1),
			fmt.Sprintf("external_ids:atoll.dev/pod=%q", p.pod)); err != nil {
			t.Fatal(err)
		}
		guests = append(guests, g)
	}
	if err := n.chassis.Installed(t.Context(), guests...); err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"red/web-0", "red/web-0/back", "red/web-1", "blue/web-0"} {
		n.keys[port] = n.keysOf(port)
	}
	n.config = kubeconfig(t, n.serve(dir))
	t.Setenv("PATH", filepath.Dir(n.central.Program("ovs-ofctl"))+":"+os.Getenv("PATH"))
	return n
}

func (n *realNode) nb(args ...string) {
	n.t.Helper()
	if _, err := n.central.NBCtl(n.t.Context(), args...); err != nil {
		n.t.Fatal(err)
	}
}

func (n *realNode) keysOf(port string) logicalPort {
	n.t.Helper()
	out, err := n.central.SBCtl(n.t.Context(), "--bare", "--columns=tunnel_key,datapath",
		"find", "Port_Binding", fmt.Sprintf("logical_port=%q", port))
	if err != nil {
		n.t.Fatal(err)
	}
	words := strings.Fields(out)
	datapath, err := n.central.SBCtl(n.t.Context(), "get", "Datapath_Binding", words[1], "tunnel_key")
	if err != nil {
		n.t.Fatal(err)
	}
	number := func(text string) uint64 {
		v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		return v
	}
	return logicalPort{number(datapath), number(words[0])}
}

// serve leads connections to the node's sockets.
func (n *realNode) serve(dir string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pod, asks := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"); asks {
			namespace, name, _ := strings.Cut(pod, "/pods/")
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w,
				`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":%q,"name":%q,"uid":"uid-of-%s-%s"},"spec":{"nodeName":"n1"}}`, namespace, name,
				namespace, name)
			return
		}
		socket := filepath.Join(dir, "db.sock")
		if r.URL.Query().Get(api.NodeSocket) == api.NodeOpenFlow {
			socket = filepath.Join(dir, r.URL.Query().Get(api.NodeBridge)+".mgmt")
		}
		websocket.Server{Handshake: func(
			c *websocket.Config, _ *http.Request,
		) error {
			c.Protocol = []string{api.NodeProtocol}
			return nil
		}, Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			far, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			defer func() { _ = far.Close() }()
			go func() { _, _ = io.Copy(ws, far); _ = ws.Close() }()
			_, _ = io.Copy(far, ws)
		}}.ServeHTTP(w, r)
	}))
	n.t.Cleanup(s.Close)
	return s.URL
}

// flows are those that atoll ofctl prints.
func (n *realNode) flows(args ...string) []bridgeFlow {
	n.t.Helper()
	status, out, problems := runAtoll(n.t, "", append([]string{"ofctl", "--kubeconfig", n.config, "-o", "json"}, args...)...)
	var flows []bridgeFlow
	if err := json.Unmarshal([]byte(out), &flows); status != 0 || err != nil {
		n.t.Fatalf("%v: status %d: %v: %s", args, status, err, problems)
	}
	n.t.Logf("%v: %d flows; %s", args, len(flows), strings.TrimSpace(problems))
	return flows
}

// passed is a flow that a packet passes, in the words of ofproto/trace.
var passed = regexp.MustCompile(`(?m)^ *(\d+)\. (\S+), priority (\d+)`)

// way are the flows with a logical switch that a packet of a guest's passes.
func (n *realNode) way(ctx context.Context, packet string) (out []bridgeFlow) {
	n.t.Helper()
	traced, err := n.chassis.Ask(ctx, "ovs-vswitchd", "ofproto/trace", "br-int", packet)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, m := range passed.FindAllStringSubmatch(traced, -1) {
		table, _ := strconv.Atoi(m[1])
		priority, _ := strconv.Atoi(m[3])
		if strings.Contains(m[2], "metadata=") || strings.Contains(m[2], "in_port=") {
			out = append(out, bridgeFlow{Table: table, Priority: priority, Match: m[2]})
		}
	}
	return out
}

// TestOfctlKeepsThePodsFlows, with a real ovn-controller: what is kept of a bridge is of the pod's switches alone, by both its
// interfaces, and has each flow of its switch that its packets come in by, and that packets to it go out by, as Open vSwitch
// itself traces them. Nothing is of the tenant with the same addresses. The control is --all, which has all of that.
func TestOfctlKeepsThePodsFlows(t *testing.T) {
	n := newRealNode(t)
	front, back, neighbour, other := n.keys["red/web-0"], n.keys["red/web-0/back"], n.keys["red/web-1"], n.keys["blue/web-0"]
	// foreign is what is of somebody else.
	foreign := func(f bridgeFlow) bool {
		fields := matched(f.Match)
		has := func(name string, value uint64) bool { return fields[name] == fmt.Sprintf("%#x", value) }
		return has("metadata", other.datapath) || fields["in_port"] == "3" || fields["in_port"] == "4" ||
			has("metadata", front.datapath) &&
				(has("reg14", neighbour.port) && !has("reg15", front.port) || has("reg15", neighbour.port) && !has("reg14", front.port))
	}
	all, kept := n.flows("--pod", "red/web-0", "--all", "dump-flows", "br-int"), n.flows("--pod", "red/web-0", "dump-flows", "br-int")
	if of := len(slices.DeleteFunc(slices.Clone(all), func(f bridgeFlow) bool { return !foreign(f) })); of < 20 {
		t.Errorf("the control: of others are %d flows", of)
	}
	for _, f := range kept {
		if foreign(f) {
			t.Errorf("kept is %+v", f)
		}
	}
	for _, version := range []string{"OpenFlow13", "OpenFlow15"} {
		if again := n.flows("--pod", "red/web-0", "-O", version, "dump-flows", "br-int"); len(again) != len(kept) {
			t.Errorf("by %s %d flows, by the default %d", version, len(again), len(kept))
		}
	}
	for _, want := range []string{
		fmt.Sprintf("in_port=%d", 1), fmt.Sprintf("in_port=%d", 2), fmt.Sprintf("reg15=%#x,metadata=%#x", front.port, front.datapath),
		fmt.Sprintf("reg15=%#x,metadata=%#x", back.port, back.datapath),
	} {
		if !slices.ContainsFunc(kept, func(f bridgeFlow) bool { return f.Match == want }) {
			t.Errorf("no flow is kept that matches %s", want)
		}
	}
	// The packets of its way in, and of the way out to it. What is for the neighbour alone is not the pod's.
	const packet = "icmp,dl_src=0a:00:00:00:00:0%d,dl_dst=0a:00:00:00:00:0%d,nw_src=10.0.0.%d,nw_dst=10.0.0.%d,nw_ttl=64,in_port=guest%d"
	for _, c := range []struct {
		what, packet, except string
	}{
		{"from the pod", fmt.Sprintf(packet, 2, 3, 2, 3, 1), fmt.Sprintf("reg15=%#x", neighbour.port)},
		{"to the pod", fmt.Sprintf(packet, 3, 2, 3, 2, 3), fmt.Sprintf("reg14=%#x", neighbour.port)},
	} {
		way, looked := n.way(t.Context(), c.packet), 0
		for _, f := range way {
			if strings.Contains(f.Match, c.except) || f.Match == "in_port=3" {
				continue
			}
			looked++
			if !slices.ContainsFunc(kept, func(k bridgeFlow) bool { return k.Table == f.Table && k.Priority == f.Priority && k.Match == f.Match }) {
				t.Errorf("a packet %s passes what is not kept: %+v", c.what, f)
			}
		}
		t.Logf("a packet %s passes %d flows with a switch or a port, %d of them the pod's", c.what, len(way), looked)
		if looked < 10 {
			t.Errorf("a packet %s passes %+v", c.what, way)
		}
	}
	status, out, problems := runAtoll(t, "", "ofctl", "--kubeconfig", n.config, "--pod", "red/web-0", "-o", "json", "dump-ports", "br-int")
	if status != 0 || strings.Count(out, `"PortID"`) != 2 || !strings.Contains(problems, "2 of 6 ports") {
		t.Errorf("ports: status %d: %s%s", status, out, problems)
	}
}
