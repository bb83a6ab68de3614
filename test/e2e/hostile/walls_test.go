//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// walls are the rules of a node that keep its pods from tunnels and databases: the sets of addresses in the node's table and in the
// porthole of the attackers' Network, and what gives pods another address than the tunnel's.
func walls(t *testing.T, node string) defence {
	t.Helper()
	var commands [][]string
	for _, set := range []string{"tunnels", "databases4", "closed4", "infra4", "never4"} {
		commands = append(commands, []string{"nft", "flush", "set", "inet", "atoll", set})
	}
	for _, set := range []string{"infra4", "never4"} {
		commands = append(commands, []string{"ip", "netns", "exec", doorOf(t, "attackers"), "nft", "flush", "set", "inet", "atoll", set})
	}
	commands = append(commands, []string{"nft", "insert", "rule", "inet", "atoll", "disguise", "oifname", "br-phys", "masquerade"})
	d := onNode(node, commands...)
	d.name = "the walls of node " + node
	return d
}

// sbctl reads the southbound database.
func sbctl(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(env.SBCtl(t, args...))
}

// tunnelKey is the key of a datapath or of a port in tunnels.
func tunnelKey(t *testing.T, table, what string) uint32 {
	t.Helper()
	key, err := strconv.ParseUint(sbctl(t, "--bare", "--columns=tunnel_key", "find", table, what), 10, 24)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(key)
}

// tunnels lets a pod send, by an ordinary socket, what a node would send in a tunnel: a frame for a victim in another Network, as if that
// Network's router had sent it. The attacker has it if the victim sees the datagram in it.
func tunnels(t *testing.T, from *corev1.Pod, to netip.AddrPort, victim *corev1.Pod) attempt {
	t.Helper()
	in := frames.Inner{
		Datapath: tunnelKey(t, "Datapath_Binding", "external_ids:name=victims/a"),
		From:     tunnelKey(t, "Port_Binding", `logical_port="victims/a:router"`),
		To:       tunnelKey(t, "Port_Binding", fmt.Sprintf("logical_port=%q", victim.Namespace+"/"+victim.Name)),
	}
	end, friend, neighbour := endOf(t, victim), member(t, "attackers/near"), member(t, "attackers/far")
	return func(ctx context.Context) (string, error) {
		token, err := matrix.NewToken()
		if err != nil {
			return "", err
		}
		inner := frames.V4{
			From: end.MAC, To: end.MAC, Source: netip.MustParseAddr("10.0.77.77"), Target: end.V4, Protocol: unix.IPPROTO_UDP,
			Payload: frames.UDP(4711, wire.DefaultPort, token),
		}
		for range 2 {
			if err := tell(ctx, from, [][]byte{frames.Geneve(in, inner.Bytes())}, nil, "send", "-udp", to.String()); err != nil {
				return "", err
			}
			// What goes honestly through the tunnel, later, has arrived when it is answered.
			if p, err := env.TryProbe(ctx, friend, neighbour); err != nil || !p.Answered {
				return "", fmt.Errorf("the honest way through the tunnel: answered %t, %w", p.Answered, err)
			}
		}
		if seen, err := matrix.Seen(ctx, env.Exec, victim.Namespace, victim.Name, token); err != nil || len(seen) == 0 {
			return "", err
		}
		return fmt.Sprintf("%s/%s got the frame in it", victim.Namespace, victim.Name), nil
	}
}

// leads makes a Service of a namespace with a slice written by hand, by which a port leads to somebody, and is where it is.
func leads(t *testing.T, namespace, name string, protocol corev1.Protocol, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	services := env.Clients.Kube.CoreV1().Services(namespace)
	port, yes := int32(to.Port()), true
	service, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port, Protocol: protocol}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.Clients.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{to.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
		Ports:       []discoveryv1.EndpointPort{{Port: &port, Protocol: &protocol}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		// The slice goes with it.
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), to.Port())
}

// encap is the address of a node's tunnels.
func encap(t *testing.T, node string) netip.Addr {
	t.Helper()
	return netip.MustParseAddr(sbctl(t, "--bare", "--columns=ip", "find", "Encap", "chassis_name="+node))
}

// TestTunnelsAndDatabases: pods of a tenant's Network and of the default one, with and without capabilities, forge tunnels to a
// node where victims are, and dial the databases of OVN, by address and by Services whose slices somebody wrote by hand.
// Attackers have direct access to the infrastructure, so that nothing but these walls is between. They use ordinary sockets:
// outside of make test-all one of each Network does, with capabilities and without.
func TestTunnelsAndDatabases(t *testing.T) {
	victim := member(t, "victims/far")
	tunnel := netip.AddrPortFrom(encap(t, victim.Spec.NodeName), 6081)
	// The node of the databases' member.
	central := env.NodeAddresses(t, "n1")[0]
	south, north := netip.AddrPortFrom(central, 6642), netip.AddrPortFrom(central, 6641)
	by := map[string]netip.AddrPort{}
	for _, ns := range []string{"attackers", "plain"} {
		by[ns+" tunnel"] = leads(t, ns, "a-tunnel", corev1.ProtocolUDP, tunnel)
		by[ns+" south"] = leads(t, ns, "a-database", corev1.ProtocolTCP, south)
	}
	env.ChangeNetwork(t, "attackers", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraDirect })
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.TryChangeNetwork(ctx, "attackers", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = "" }); err != nil {
			t.Error(err)
		}
	})
	// As soon as direct access is there, silence means something.
	kubelet := env.NodeAddresses(t, "n2")[0]
	var attacks []attack
	attackers := []string{"attackers/weak", "plain/strong"}
	if tier.All() {
		attackers = []string{"attackers/weak", "attackers/strong", "plain/weak", "plain/strong"}
	}
	for _, name := range attackers {
		from := member(t, name)
		ns, _, _ := strings.Cut(name, "/")
		cluster.Eventually(t, cluster.Patience, name+" reaches a kubelet", func(ctx context.Context) error {
			got, err := dials(from, kubelet, 10250, wire.TCP)(ctx)
			if err == nil {
				err = succeeded(got)
			}
			return err
		})
		attacks = append(attacks,
			attack{name + " sends a tunnel's packet", tunnels(t, from, tunnel, victim)},
			attack{name + " sends a tunnel's packet by a Service", tunnels(t, from, by[ns+" tunnel"], victim)},
			attack{name + " dials the southbound database", dials(from, central, south.Port(), wire.TCP)},
			attack{name + " dials the southbound database by a Service", dials(from, by[ns+" south"].Addr(), south.Port(), wire.TCP)},
			attack{name + " dials the northbound database", dials(from, central, north.Port(), wire.TCP)},
		)
	}
	walls(t, "n1").holds(t, attacks...)
}
