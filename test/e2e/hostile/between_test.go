//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// TestRandomCompatibility: eight Networks of four plans of addresses, some of which conflict, drawn by a seed, with edges of both
// modes, Services with endpoints in several of them and policies across. 32 pods on three nodes dial each other by own address
// and by face, and all Services. In make test-all a third of the edges changes then, and they dial again. At last explain says of
// paths of all kinds what packets do.
func TestRandomCompatibility(t *testing.T) {
	seed := tier.Seed(t)
	t.Attr("seed", fmt.Sprint(seed))
	scene := between.Draw(seed, env.Box.Nodes())
	world := buildBetween(t, scene)
	first, _, names := askBetween(t, world, "at first", true)
	t.Logf("%d paths, %d names; 0 wrong", len(first), names)
	if tier.All() {
		changeBetween(t, world, scene.Change(seed), first)
	}
	explainsPackets(t, world, seed, pathsToExplain())
}

// changeBetween changes edges, of which first are the paths so far, and has every pod dial everything again.
func changeBetween(t *testing.T, world between.World, changed between.Scene, first []random.Path) {
	t.Helper()
	for i, n := range changed.Networks {
		before := specOf(world.Networks[i].Network)
		world.Networks[i].Network = n
		if said := specOf(n); !slices.Equal(said.CompatibleWith, before.CompatibleWith) || !slices.Equal(said.Uses, before.Uses) ||
			!slices.Equal(said.UsesAddressesOf, before.UsesAddressesOf) ||
			!reflect.DeepEqual(said.UsesServiceCIDRs, before.UsesServiceCIDRs) {
			t.Log(n)
			env.ChangeNetwork(t, n.Name, func(s *v1alpha1.NetworkSpec) {
				s.CompatibleWith, s.Uses, s.UsesAddressesOf, s.UsesServiceCIDRs = said.CompatibleWith, said.Uses, said.UsesAddressesOf,
					said.UsesServiceCIDRs
			})
		}
	}
	second, seen, more := askBetween(t, world, "after the change", false)
	// The control: by what was so before the change, what is seen after it is wrong.
	wrong, _ := random.Verdict(world.Placed(), first, seen)
	if same := slices.EqualFunc(first, second, func(a, b random.Path) bool { return slices.Equal(a.May, b.May) }); len(wrong) == 0 && !same {
		t.Error("what was seen after the change is right by the edges before it, too")
	}
	t.Logf("%d paths, %d names after the change; 0 wrong; by the edges before it %d would be", len(second), more, len(wrong))
}

// lookingUp is how many pods look names up at once.
const lookingUp = 6

// specOf is a drawn Network as its owner writes it. What it does not know must not be answered from outside of the cluster.
func specOf(n between.Network) v1alpha1.NetworkSpec {
	spec := v1alpha1.NetworkSpec{Tenant: n.Tenant, Uses: n.Uses, UsesAddressesOf: n.UsesAddressesOf, Egress: v1alpha1.EgressNone}
	for _, r := range n.Plan.Services {
		spec.ServiceCIDRs = append(spec.ServiceCIDRs, v1alpha1.CIDR(r.String()))
	}
	for _, of := range slices.Sorted(maps.Keys(n.UsesServiceCIDRs)) {
		named := v1alpha1.UsedServiceCIDRs{Network: of}
		for _, r := range n.UsesServiceCIDRs[of] {
			named.CIDRs = append(named.CIDRs, v1alpha1.CIDR(r.String()))
		}
		spec.UsesServiceCIDRs = append(spec.UsesServiceCIDRs, named)
	}
	subnet := v1alpha1.Subnet{Name: "a"}
	for _, r := range n.Plan.Subnet {
		subnet.CIDRs = append(subnet.CIDRs, v1alpha1.CIDR(r.String()))
	}
	spec.Subnets = []v1alpha1.Subnet{subnet}
	for _, p := range n.CompatibleWith {
		peer := v1alpha1.CompatiblePeer{
			Network: p.Network, Tenant: p.Tenant, All: p.All, Mode: v1alpha1.CompatibilityByFace, Addresses: p.Addresses,
		}
		if p.Routed {
			peer.Mode = v1alpha1.CompatibilityRouted
		}
		spec.CompatibleWith = append(spec.CompatibleWith, peer)
	}
	return spec
}

// buildBetween makes a scene, and returns it with what the cluster gave it.
func buildBetween(t *testing.T, scene between.Scene) between.World {
	t.Helper()
	world := between.World{Policies: scene.Policies}
	for _, n := range scene.Networks {
		t.Log(n)
		env.Network(t, n.Name, specOf(n))
		env.Namespace(t, n.Name, n.Name)
		if n.Tenant != "" {
			label(t, n.Name, model.LabelTenant, n.Tenant)
		}
		made, err := env.Clients.Network(t.Context(), n.Name)
		if err != nil {
			t.Fatal(err)
		}
		world.Networks = append(world.Networks, between.Known{Network: n, Created: made.CreationTimestamp.Time})
		both := corev1.IPFamilyPolicyPreferDualStack
		env.Service(t, n.Name, "web", corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: []corev1.ServicePort{
			{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: wire.DefaultPort}, {Name: "udp", Protocol: corev1.ProtocolUDP, Port: wire.DefaultPort},
		}})
	}
	for _, p := range scene.Policies {
		if _, err := env.Clients.Kube.NetworkingV1().NetworkPolicies(p.Namespace).Create(t.Context(), &p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	made := make([]*corev1.Pod, len(scene.Pods))
	for i, p := range scene.Pods {
		spec := cluster.PodSpec{Namespace: p.Namespace, Name: p.Name, Node: p.Node, App: p.App}
		if p.Guest() {
			spec.Network = p.Network
		}
		if p.Asks.IsValid() {
			spec.NICs = fmt.Sprintf(`[{"ip":%q}]`, p.Asks)
		}
		made[i] = env.Pod(t, spec)
	}
	for i, pod := range env.WaitReady(t, made...) {
		p := between.Placed{
			Placed: random.Placed{Pod: scene.Pods[i].Pod, UID: string(pod.UID), Own: cluster.AddressesOfPod(t, pod)}, App: scene.Pods[i].App,
		}
		for _, ip := range pod.Status.PodIPs {
			p.Faces = append(p.Faces, netip.MustParseAddr(ip.IP))
		}
		if in := cluster.AttachmentOf(t, pod).Network; in != p.Network {
			t.Fatalf("%s is in %s and not in %s", p, in, p.Network)
		}
		world.Pods = append(world.Pods, p)
	}
	for _, n := range scene.Networks {
		world.Services = append(world.Services, served(t, n))
	}
	return world
}

// served is the Service of a Network, when it has its addresses there.
func served(t *testing.T, n between.Network) between.Service {
	t.Helper()
	out := between.Service{Network: n.Name}
	cluster.Eventually(t, cluster.Patience, "addresses of Service "+n.Name+"/web", func(ctx context.Context) error {
		s, err := env.Clients.Kube.CoreV1().Services(n.Name).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		out.ClusterIPs, out.Own = nil, nil
		for _, ip := range s.Spec.ClusterIPs {
			out.ClusterIPs = append(out.ClusterIPs, netip.MustParseAddr(ip))
		}
		if given := intake.ServiceAddresses(s.Annotations[model.AnnotationServiceAddresses], string(s.UID)); given != nil {
			out.Own = given.Addresses
		}
		if len(out.Own) != len(n.Plan.Services) {
			return fmt.Errorf("it has %v", out.Own)
		}
		return nil
	})
	return out
}

// askBetween waits until the status of all Networks is as expected. Then every pod dials everything, and failed paths are tried
// again until all come out as expected. Then the pods look up all names. It returns the paths, what was seen of them, and how many
// names resolved. Where nothing was open before, an answer that must not arrive fails at once, without waiting.
func askBetween(t *testing.T, world between.World, when string, closed bool) (paths []random.Path, seen []random.Seen, found int) {
	t.Helper()
	edges := between.Edges(world.Networks)
	cluster.Eventually(t, cluster.Patience, "who reaches whom "+when, func(ctx context.Context) error { return says(ctx, world, edges) })
	placed := world.Placed()
	paths = world.Paths()
	seen = make([]random.Seen, len(paths))
	pending, began, rounds := make([]int, len(paths)), time.Now(), 0
	for i := range paths {
		pending[i] = i
	}
	cluster.Eventually(t, cluster.Patience, "0 wrong "+when, func(ctx context.Context) error {
		var asked []random.Path
		for _, i := range pending {
			asked = append(asked, paths[i])
		}
		now, err := random.Run(ctx, env.Exec, placed, asked)
		if err != nil {
			return err
		}
		rounds++
		var again []int
		for k, i := range pending {
			seen[i] = now[k]
			if what, _ := random.Judge(paths[i], now[k]); what != "" {
				again = append(again, i)
			}
		}
		pending = again
		wrong, leaked := random.Verdict(placed, asked, now)
		if len(wrong) == 0 {
			return nil
		}
		err = fmt.Errorf("%d of %d paths are wrong, %d of them heard by somebody who must not:\n%s", len(wrong), len(paths), leaked,
			strings.Join(wrong[:min(len(wrong), 20)], "\n"))
		t.Logf("%s, round %d: %v", when, rounds, err)
		if closed && leaked > 0 {
			t.FailNow()
		}
		return err
	})
	t.Logf("%s: %d edges, %s; into other Networks %v; 0 wrong after %d rounds and %s", when, len(edges), random.Count(paths),
		world.Across(paths), rounds, time.Since(began).Round(time.Second))
	names := world.Names()
	cluster.Eventually(t, cluster.Patience, "all names "+when, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(lookingUp)
		found = 0
		for _, p := range world.Pods {
			if !world.MayLookUp(p) {
				continue
			}
			found += len(names[p.Network])
			group.Go(func() error { return finds(ctx, p.Placed, names[p.Network]) })
		}
		return group.Wait()
	})
	return paths, seen, found
}

// says compares what Networks say of whom they reach with what they should.
func says(ctx context.Context, world between.World, edges map[between.Edge]bool) error {
	dialled, ranged := between.Dialled(world.Networks), between.Ranged(world.Networks)
	got, addresses, services := map[between.Edge]bool{}, map[between.Edge]bool{}, map[between.Edge]bool{}
	var reasons []string
	for _, n := range world.Networks {
		now, err := env.Clients.Network(ctx, n.Name)
		if err != nil {
			return err
		}
		for _, c := range now.Status.Compatibility {
			e := between.Edge{Provider: c.Network, Consumer: n.Name}
			_, wanted := edges[e]
			switch {
			case c.Direction != v1alpha1.CompatibilityUses:
			case c.State == string(model.CompatibilityActive):
				got[e], addresses[e], services[e] = c.Mode == v1alpha1.CompatibilityRouted, c.Addresses, c.ServiceAddresses
			case wanted:
				reasons = append(reasons, fmt.Sprintf("%s: %s", n.Name, c.Message))
			}
		}
	}
	var wrong []string
	for e, routed := range edges {
		if now, there := got[e]; !there || now != routed || addresses[e] != dialled[e] || services[e] != ranged[e] {
			wrong = append(wrong, fmt.Sprintf("%s reaches %s: %t, routed %t, by own addresses %t, Services' own %t, want %t, %t and %t",
				e.Consumer, e.Provider, there, now, addresses[e], services[e], routed, dialled[e], ranged[e]))
		}
	}
	for e := range got {
		if _, wanted := edges[e]; !wanted {
			wrong = append(wrong, fmt.Sprintf("%s reaches %s, and must not", e.Consumer, e.Provider))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d edges are wrong: %q; %q", len(wrong), len(edges), wrong, reasons)
	}
	return nil
}
