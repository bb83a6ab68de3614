//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// aim is what an attacker dials.
type aim struct {
	what    string
	address netip.Addr
	port    uint16
	// node from which somebody is there; empty where nobody need be.
	node string
}

// TestAttacksFromANetwork lets a pod, whose Network may call out as by default, dial what it must not reach: other
// Networks' faces and Services, nodes with what listens there, the default Network, link-local addresses. First each
// aim is dialled from where it may be, so that silence means something.
func TestAttacksFromANetwork(t *testing.T) {
	t.Parallel()
	const ns, victims, infra = "mallory", "victims", "victims-infra"
	dual := v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}
	for _, name := range []string{ns, victims} {
		env.Network(t, name, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{dual}})
		env.Namespace(t, name, name)
	}
	env.Namespace(t, infra, "")
	const twin = `[{"ip":"10.0.0.50"}]`
	ports := []corev1.ServicePort{{Port: wire.DefaultPort}}
	services := []*corev1.Service{
		env.Service(t, victims, "far", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports}),
		env.Service(t, infra, "plain", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports}),
	}
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "mallory", Node: "n1", NICs: twin}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "sibling", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: victims, Name: "near", Node: "n1", NICs: twin}),
		env.Pod(t, cluster.PodSpec{Namespace: victims, Name: "far", Node: "n2", App: "far"}),
		env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "plain", Node: "n1", App: "plain"}),
	)
	mallory, sibling, others := pods[0], pods[1], pods[2:]
	var aims []aim
	for _, victim := range others {
		for _, ip := range victim.Status.PodIPs {
			address := netip.MustParseAddr(ip.IP)
			node := victim.Spec.NodeName
			aims = append(aims, aim{"face of " + victim.Name, address, wire.DefaultPort, node})
		}
	}
	for _, service := range services {
		aims = append(aims, aim{"Service " + service.Name, netip.MustParseAddr(service.Spec.ClusterIP), wire.DefaultPort, "n1"})
	}
	for _, node := range env.Box.Nodes() {
		addresses := append(env.NodeAddresses(t, node), cluster.AddressesOf(env.GivenTo(t, node))...)
		// What it serves to controllers alone.
		aims = append(aims, aim{"agent of " + node, addresses[0], nodeapi.Port, node})
		for _, address := range addresses {
			aims = append(aims, aim{"kubelet of " + node, address, 10250, node})
			for _, service := range services {
				if address.Is4() {
					aims = append(aims, aim{"node port of " + service.Name, address, uint16(service.Spec.Ports[0].NodePort), ""})
				}
			}
		}
	}
	for _, address := range []string{
		"169.254.169.254", "169.254.100.1", "169.254.100.2", "169.254.100.5", "169.254.100.6", "fdd7:5e3c:91a4::a701:2",
	} {
		for _, port := range []uint16{80, 10250, 9411, 9414} {
			aims = append(aims, aim{"the porthole and metadata", netip.MustParseAddr(address), port, ""})
		}
	}
	for _, a := range aims {
		if a.node == "" {
			continue
		}
		cluster.Eventually(t, cluster.Patience,
			fmt.Sprintf("%s at %s port %d listens", a.what, a.address, a.port), func(ctx context.Context) error {
				conn, err := env.DialFrom(ctx, a.node, "tcp", netip.AddrPortFrom(a.address, a.port).String())
				if err == nil {
					err = conn.Close()
				}
				return err
			})
	}
	dialAll(t, mallory, aims)
	forgeAll(t, mallory, sibling, others)

	env.Reach(t, mallory, sibling)
}

// dialAll lets a pod dial everything at once, by all protocols. Nobody may answer.
func dialAll(t *testing.T, from *corev1.Pod, aims []aim) {
	t.Helper()
	run := cluster.NewToken(t)
	var targets []wire.Target
	of := map[string]aim{}
	for i, a := range aims {
		for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP} {
			token := fmt.Sprintf("%s-%d-%s", run, i, protocol)
			targets = append(targets, wire.Target{Address: a.address, Protocol: protocol, Port: a.port, Token: token})
			of[token] = a
		}
	}
	results, err := matrix.Probe(t.Context(), env.Exec, from.Namespace, from.Name, targets)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(targets) {
		t.Fatalf("%d results of %d", len(results), len(targets))
	}
	routers := map[netip.Addr]bool{model.EdgeAddresses()[0].Addr(): true}
	for _, target := range targets {
		r := results[target.Token]
		if target.Protocol == wire.ICMP && routers[target.Address] {
			continue // its own router may say that it is there
		}
		if r.Answered || r.Connected {
			t.Errorf("%s at %s port %d by %s: %+v", of[target.Token].what, target.Address, target.Port, target.Protocol, r)
		}
	}
}

// forgeAll sends frames with sources that are not the pod's to its router, for each victim's face and own address.
func forgeAll(t *testing.T, from, sibling *corev1.Pod, victims []*corev1.Pod) {
	t.Helper()
	router := env.RouterMAC(t, from.Namespace+"/a:gateway")
	forged := cluster.NewToken(t)
	sources := []string{
		cluster.OwnAddress(t, sibling), sibling.Status.PodIP, from.Status.PodIP, "169.254.100.2", env.NodeAddresses(t, "n1")[0].String(),
	}
	for _, victim := range victims {
		sources = append(sources, victim.Status.PodIP)
	}
	for _, victim := range victims {
		for _, source := range append(sources, cluster.OwnAddress(t, from)) {
			for _, target := range []string{victim.Status.PodIP, cluster.OwnAddress(t, victim)} {
				env.Forge(t, from, forged, "-count=1", "-source", source, "-target", target, "-target-mac", router)
			}
		}
	}
	// What is sent in the same way to whom it may reach arrives, and frames of a port keep their order.
	honest := cluster.NewToken(t)
	env.Forge(t, from, honest, "-source", cluster.OwnAddress(t, from), "-target", cluster.OwnAddress(t, sibling), "-target-mac",
		cluster.AttachmentOf(t, sibling).MAC)
	cluster.Eventually(t, cluster.Patience, "the honest frame", func(ctx context.Context) error { return env.Saw(ctx, sibling, honest) })
	for _, victim := range victims {
		if err := env.Saw(t.Context(), victim, forged); err == nil {
			t.Errorf("%s/%s saw a forged frame", victim.Namespace, victim.Name)
		} else if !errors.Is(err, cluster.ErrUnseen) {
			t.Error(err)
		}
	}
}
