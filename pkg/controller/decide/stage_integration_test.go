//go:build integration

package decide_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// stage is a controller's engine with a whole OVN behind it and one node, n1, whose pods are network namespaces: what
// the engine decides is tried with packets. It has the Networks default, red and blue; red and blue have the same
// addresses. Pods of the namespaces a, r and b are in them, in this order.
type stage struct {
	*cluster
	t       *testing.T
	central *ovn.Central
	chassis *ovn.Chassis
	engine  *running
	guests  map[model.PodKey]*ovn.Guest
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{cluster: newCluster(), t: t, central: ovn.Start(t, true), guests: map[model.PodKey]*ovn.Guest{}}
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	nbctl(t, s.central, "init")
	// ovn-controller 25.03 crashes on a southbound database without its first row.
	if _, err := s.central.SBCtl(t.Context(), "init"); err != nil {
		t.Fatal(err)
	}
	s.chassis, err = ovn.StartChassis(t.Context(), ovn.ChassisOptions{
		Dir: dir, Name: "n1", Southbound: s.central.SBAddress(), Datapath: datapath,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.chassis.Stop)
	s.engine = startEngineOf(t, s.cluster, s.central.NBAddress(), "1", stageSettings())
	for ns, name := range map[string]string{"a": "default", "r": "red", "b": "blue"} {
		n, labels := network(name), map[string]string{model.LabelNetwork: name}
		cidrs := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00:10::/64")}
		if name == "default" {
			n.Type, labels = model.Flat, nil
			cidrs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:244::/64")}
		}
		n.Subnets = []model.Subnet{{Name: "pods", CIDRs: cidrs}}
		s.setNetwork(n)
		s.setNamespace(ns, labels)
	}
	s.setNode(node("n1", 1))
	return s
}

func stageSettings() decide.Defaults {
	settings := withFaces("100.64.0.0/10", "fd64:a701::/64")
	settings.DNS = model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}
	settings.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/112")}
	return settings
}

// pod makes a pod and plugs it in.
func (s *stage) pod(ns, name string) *ovn.Guest {
	s.t.Helper()
	p := pod(ns, name, "")
	s.setPod(p)
	eventually(s.t, "attached", func() string {
		if s.attachment(p.Key) == nil {
			return "not attached"
		}
		return "attached"
	})
	return s.plug(p.Key, p.UID)
}

// plug makes a pod's place on its node.
func (s *stage) plug(key model.PodKey, uid string) *ovn.Guest {
	s.t.Helper()
	a := s.attachment(key)
	g, err := s.chassis.Plug(s.t.Context(), ovn.Interface{
		Port: key.String(), UID: uid, MAC: a.MAC, Addresses: a.Addresses, Gateways: a.Gateways,
	})
	if err == nil {
		err = s.chassis.Installed(s.t.Context(), g)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.guests[key] = g
	return g
}

// own is a pod's own address.
func (s *stage) own(ns, name string, v6 bool) netip.Addr {
	s.t.Helper()
	for _, a := range s.attachment(model.PodKey{Namespace: ns, Name: name}).Addresses {
		if a.Addr().Is6() == v6 {
			return a.Addr()
		}
	}
	s.t.Fatalf("%s/%s has no such address", ns, name)
	return netip.Addr{}
}

// face is the address that Kubernetes knows a pod by.
func (s *stage) face(ns, name string, v6 bool) netip.Addr {
	s.t.Helper()
	a := s.attachment(model.PodKey{Namespace: ns, Name: name})
	if len(a.Faces) == 0 {
		return s.own(ns, name, v6)
	}
	return a.Faces[slices.IndexFunc(a.Faces, func(f netip.Addr) bool { return f.Is6() == v6 })]
}

// behind has a slice of a Service hold pods of its namespace that serve on a port, in the family of the slice's name.
func (s *stage) behind(ns, service string, v6 bool, pods ...string) {
	s.t.Helper()
	name := service + "-4"
	if v6 {
		name = service + "-6"
	}
	e := model.Slice{
		Key: model.SliceKey{Namespace: ns, Name: name}, UID: "uid-" + name, Service: service,
		Ports: []model.SlicePort{
			{Name: "tcp", Protocol: model.TCP, Port: 8080},
			{Name: "udp", Protocol: model.UDP, Port: 8080},
			{Name: "sctp", Protocol: model.SCTP, Port: 8080},
		},
	}
	for _, p := range pods {
		e.Endpoints = append(e.Endpoints, endpoint(ns, p, s.face(ns, p, v6).String()))
	}
	s.setSlice(e)
}

// vips are where the Service of a namespace is reached, by IPv4 and by IPv6. Others know it in the default Network, too: no
// two have the same.
func vips(ns string) [2]string {
	return map[string][2]string{"a": {"10.96.0.5:80", "[fd96::5]:80"}, "r": {"10.96.0.6:80", "[fd96::6]:80"}}[ns]
}

// dualService is a Service of three protocols and both families.
func dualService(ns, name string) model.Service {
	s := service(ns, name, "10.96.0.1")
	s.ClusterIPs = nil
	for _, vip := range vips(ns) {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddrPort(vip).Addr())
	}
	s.Ports = []model.ServicePort{
		{Name: "tcp", Protocol: model.TCP, Port: 80},
		{Name: "udp", Protocol: model.UDP, Port: 80},
		{Name: "sctp", Protocol: model.SCTP, Port: 80},
	}
	return s
}

// leads waits until a virtual address leads to exactly these endpoints on the node itself.
func (s *stage) leads(network, service, protocol, vip string, endpoints ...netip.AddrPort) {
	s.t.Helper()
	var texts []string
	for _, e := range endpoints {
		texts = append(texts, e.String())
	}
	name := network + "/" + service + ":" + protocol
	eventually(s.t, strings.Join(texts, ","), func() string {
		rows := nbctl(s.t, s.central, "--bare", "--columns=vips", "find", "Load_Balancer", fmt.Sprintf("name=%q", name))
		for pair := range strings.FieldsSeq(rows) {
			if backends, found := strings.CutPrefix(pair, vip+"="); found {
				return backends
			}
		}
		return "no " + vip + " in " + name + ": " + rows
	})
	s.sync()
}

// leadsTo puts pods behind a Service that dualService made, and waits until its virtual address of one IP family leads to
// exactly these on the node itself.
func (s *stage) leadsTo(ns, service string, v6 bool, pods ...string) {
	s.t.Helper()
	s.behind(ns, service, v6, pods...)
	var endpoints []netip.AddrPort
	for _, pod := range pods {
		endpoints = append(endpoints, netip.AddrPortFrom(s.own(ns, pod, v6), 8080))
	}
	vip := vips(ns)[0]
	if v6 {
		vip = vips(ns)[1]
	}
	for _, protocol := range []string{"udp", "sctp", "tcp"} {
		s.leads(homes[ns], ns+"/"+service, protocol, vip, endpoints...)
	}
}

// sync waits until the node has what the northbound database has, and its datapath has forgotten what it decided before: a
// switch that has its flows goes by those it remembers until it has looked at each again (ofproto-dpif-upcall.c).
func (s *stage) sync() {
	s.t.Helper()
	nbctl(s.t, s.central, "--wait=hv", "sync")
	if _, err := s.chassis.Ask(s.t.Context(), "ovs-vswitchd", "revalidator/wait"); err != nil {
		s.t.Fatal(err)
	}
}

// patience bounds a question and its answer, in time that the machine gave: what is not answered by then is lost.
const patience = 3 * time.Second

// serve answers at a port of all addresses.
func (s *stage) serve(g *ovn.Guest, port uint16, name string) {
	s.t.Helper()
	s.serveAt(g, netip.AddrPortFrom(netip.IPv6Unspecified(), port), name)
}

// serveAt answers to each line by TCP, and to each packet by UDP, with a name and the client's address, until the test
// ends.
func (s *stage) serveAt(g *ovn.Guest, at netip.AddrPort, name string) {
	s.t.Helper()
	var tcp net.Listener
	var udp *net.UDPConn
	err := g.Do(func() (err error) {
		if tcp, err = net.Listen("tcp", at.String()); err != nil {
			return err
		}
		udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _, _ = tcp.Close(), udp.Close() })
	say := func(client netip.AddrPort) string { return fmt.Sprintf("%s sees %s\n", name, client.Addr().Unmap()) }
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			s.t.Cleanup(func() { _ = conn.Close() })
			go func() {
				client := netip.MustParseAddrPort(conn.RemoteAddr().String())
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := io.WriteString(conn, say(client)); err != nil {
						return
					}
				}
			}()
		}
	}()
	go func() {
		packet := make([]byte, 100)
		for {
			_, client, err := udp.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			_, _ = udp.WriteToUDPAddrPort([]byte(say(client)), client)
		}
	}()
}

// talk is a connection, or packets from one port.
type talk struct{ net.Conn }

// dial connects a guest to an address.
func dial(t *testing.T, g *ovn.Guest, network, address string) (talk, error) {
	t.Helper()
	var conn net.Conn
	err := g.Do(func() (err error) {
		conn, err = wait.Dial(new(net.Dialer), network, address, patience)
		return err
	})
	if err != nil {
		return talk{}, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return talk{conn}, nil
}

// ask says a line and returns the answer.
func (c talk) ask() (string, error) {
	defer wait.Limit(c, patience)()
	if _, err := io.WriteString(c, "who?\n"); err != nil {
		return "", err
	}
	packet := make([]byte, 100)
	n, err := c.Read(packet)
	return strings.TrimSpace(string(packet[:n])), err
}

// asks makes a connection, says a line and returns the answer, or what the refusal was.
func asks(t *testing.T, g *ovn.Guest, network, address string) string {
	t.Helper()
	conn, err := dial(t, g, network, address)
	if err != nil {
		return refusal(err)
	}
	defer conn.Close()
	answer, err := conn.ask()
	if err != nil {
		return refusal(err)
	}
	return answer
}

// refusal is the last part of an error: the system's own words.
func refusal(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}
