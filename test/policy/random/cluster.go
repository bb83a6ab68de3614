package random

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Case draws a cluster and packets in it.
func Case(packets int) *rapid.Generator[cases.Case] {
	return rapid.Custom(func(t *rapid.T) cases.Case {
		var c cases.Case
		c.Cluster = cluster(t)
		// Their number is fixed: of a case that fails only the packet counts that does.
		draw := packet(c.Cluster)
		for i := range packets {
			p := cases.Packet{Packet: draw.Draw(t, "packet")}
			if p.From.Pod != "" && p.To.Pod != "" && p.Port != 0 && rapid.IntRange(0, 4).Draw(t, "by a Service") == 4 {
				// Each has a Service of its own.
				p.Dial = netip.AddrPortFrom(serviceAddress(p.To.Address.Is6(), i+1), uint16(rapid.SampledFrom(portNumbers()).Draw(t, "dialled port")))
			}
			c.Packets = append(c.Packets, p)
		}
		return c
	})
}

// namespaceNames are those of all clusters.
func namespaceNames() []string { return []string{"bank", "shop", "lab"} }

// bounds of a cluster.
const (
	minPods, maxPods = 6, 10
	maxPolicies      = 6
)

func cluster(t *rapid.T) oracle.Cluster {
	c := oracle.Cluster{Nodes: cases.Nodes()}
	for _, name := range namespaceNames() {
		labels := labels("namespace").Draw(t, "labels of "+name)
		labels[corev1.LabelMetadataName] = name
		c.Namespaces = append(c.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	members := map[string]int{}
	drawn := append(rapid.SliceOfN(pod(), minPods, maxPods).Draw(t, "pods"),
		rapid.SliceOfN(homeless(), 0, 2).Draw(t, "pods without a place")...)
	for i, p := range drawn {
		p.Name = "p" + strconv.Itoa(i)
		c.Pods = append(c.Pods, face(place(p, members[p.Network]), i))
		members[p.Network]++
	}
	c.Compatible = rapid.SampledFrom([][]oracle.Compatibility{
		nil,
		{{Provider: cases.Red, Consumer: cases.Blue}},
		{{Provider: cases.Blue, Consumer: cases.Red}},
		{{Provider: cases.Red, Consumer: cases.Blue}, {Provider: cases.Blue, Consumer: cases.Red}},
	}).Draw(t, "compatible")
	c.Doors = doors(t, c)
	c.Policies = rapid.SliceOfNDistinct(networkPolicy(), 2, maxPolicies, networkPolicyKey).Draw(t, "policies")
	c.ClusterPolicies = rapid.SliceOfNDistinct(clusterPolicy(), 0, maxPolicies, clusterPolicyKey).Draw(t, "cluster policies")
	// Which of two policies of one priority comes first is open: there are none.
	for i := range c.ClusterPolicies {
		c.ClusterPolicies[i].Name = fmt.Sprintf("%s-%d", c.ClusterPolicies[i].Spec.Tier, c.ClusterPolicies[i].Spec.Priority)
	}
	return c
}

// labels of pods or namespaces.
func labels(of string) *rapid.Generator[map[string]string] {
	return rapid.Custom(func(t *rapid.T) map[string]string {
		out := map[string]string{}
		for _, key := range labelKeys(of) {
			if value := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, key); value != "" {
				out[key] = value
			}
		}
		return out
	})
}

func labelKeys(of string) []string {
	if of == "namespace" {
		return []string{"team", "env"}
	}
	return []string{"app", "tier"}
}

// pod draws a pod without a name and without addresses.
func pod() *rapid.Generator[oracle.Pod] {
	return rapid.Custom(func(t *rapid.T) oracle.Pod {
		var p oracle.Pod
		p.Namespace = rapid.SampledFrom(namespaceNames()).Draw(t, "namespace")
		p.Labels = labels("pod").Draw(t, "labels")
		p.Spec.NodeName = rapid.SampledFrom([]string{cases.Node1, cases.Node2}).Draw(t, "node")
		p.Network = rapid.SampledFrom([]string{cases.Red, cases.Red, cases.Red, cases.Blue, cases.Blue, cases.Default, cases.Default}).Draw(t,
			"network")
		p.Spec.Containers = []corev1.Container{{Name: "c", Ports: containerPorts().Draw(t, "ports")}}
		if rapid.IntRange(0, 2).Draw(t, "sidecar") == 2 {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = []corev1.Container{
				{Name: "s", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "side", Protocol: corev1.ProtocolTCP, ContainerPort: 81}}},
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "leaving") == 9 {
			// It runs until it has gone.
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0).UTC()}
		}
		return p
	})
}

// homeless draws a pod that is in no Network.
func homeless() *rapid.Generator[oracle.Pod] {
	return rapid.Custom(func(t *rapid.T) oracle.Pod {
		p := pod().Draw(t, "pod")
		p.Network = ""
		switch rapid.SampledFrom([]string{"waits", "host", "failed"}).Draw(t, "why") {
		case "host":
			p.Spec.HostNetwork = true
		case "failed":
			p.Status.Phase = corev1.PodFailed
		}
		return p
	})
}

// portNames are the names that ports have.
func portNames() []string { return []string{"web", "dns", "side"} }

// portNumbers are few, and next to each other, so that ranges begin and end among them.
func portNumbers() []int32 { return []int32{80, 81, 82, 443, 444, 53, 1, 65535} }

func containerPorts() *rapid.Generator[[]corev1.ContainerPort] {
	return rapid.Custom(func(t *rapid.T) []corev1.ContainerPort {
		var out []corev1.ContainerPort
		for _, name := range portNames()[:2] {
			if rapid.IntRange(0, 3).Draw(t, name) > 0 {
				out = append(out, corev1.ContainerPort{
					Name: name, Protocol: protocols().Draw(t, "protocol"), ContainerPort: rapid.SampledFrom(portNumbers()).Draw(t, "number"),
				})
			}
		}
		return out
	})
}

func protocols() *rapid.Generator[corev1.Protocol] {
	return rapid.SampledFrom([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP})
}

// place gives the n-th pod of its Network its addresses: the same in each Network of the same subnets.
func place(p oracle.Pod, n int) oracle.Pod {
	if p.Network == "" {
		return p
	}
	subnets := cases.Subnets(p.Network)
	for _, r := range subnets[n%len(subnets)].Ranges {
		p.Addresses = append(p.Addresses, host(r, firstHost+n))
	}
	return p
}

// face gives a pod of a vpc Network its faces: its own in the whole cluster.
func face(p oracle.Pod, n int) oracle.Pod {
	if p.Network == "" || p.Network == cases.Default {
		return p
	}
	for _, r := range cases.FaceBlocks(p.Spec.NodeName) {
		p.Faces = append(p.Faces, host(r, firstHost+n))
	}
	return p
}

// firstHost is the number of the first pod's address in a range.
const firstHost = 10

// doors draws the doors: to the DNS if there are pods for it, and to the Kubernetes API.
func doors(t *rapid.T, c oracle.Cluster) []oracle.Door {
	var out []oracle.Door
	if rapid.Bool().Draw(t, "with the API") {
		port := uint16(rapid.SampledFrom([]int32{443, 444}).Draw(t, "port of the API's servers"))
		api := func(address string, servers ...string) {
			d := oracle.Door{Address: netip.MustParseAddr(address), Protocol: corev1.ProtocolTCP, Port: 443}
			for _, s := range servers {
				d.Servers = append(d.Servers, netip.AddrPortFrom(netip.MustParseAddr(s), port))
			}
			out = append(out, d)
		}
		api("10.97.0.1", "192.0.2.11", "192.0.2.12")
		api("fd00:97::1", "2001:db8::11")
	}
	var pods []string
	for _, p := range c.Pods {
		if p.Network == cases.Default && p.Namespace == cases.DNSNamespace && len(pods) < 2 {
			pods = append(pods, p.Key())
		}
	}
	if len(pods) == 0 {
		return out
	}
	target := uint16(rapid.SampledFrom(portNumbers()).Draw(t, "port of the DNS's pods"))
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		for _, address := range []string{"10.97.0.10", "fd00:97::10"} {
			out = append(out, oracle.Door{
				Address: netip.MustParseAddr(address), Protocol: protocol, Port: 53, Pods: pods, TargetPort: target,
			})
		}
	}
	return out
}

// serviceAddress is that of the n-th Service.
func serviceAddress(six bool, n int) netip.Addr {
	if six {
		return host(netip.MustParsePrefix("fd00:96::/64"), n)
	}
	return host(netip.MustParsePrefix("10.96.0.0/24"), n)
}

// host is the n-th address of a range, n less than 256.
func host(r netip.Prefix, n int) netip.Addr {
	bytes := r.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(n)
	a, _ := netip.AddrFromSlice(bytes)
	return a
}
