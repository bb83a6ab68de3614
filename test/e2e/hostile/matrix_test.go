//go:build e2e

package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// TestRandomMatrix: six Networks of overlapping addresses and the default one, drawn by a seed, with 24 and 4 pods on three
// nodes. Every pod dials every other by its own address and by its face, all Services, and looks all their names up.
func TestRandomMatrix(t *testing.T) {
	seed := tier.Seed(t)
	t.Attr("seed", fmt.Sprint(seed))
	scene := random.Draw(seed, random.Plans(), env.Box.Nodes())
	placed, services := build(t, scene)
	paths := random.Paths(placed, services)
	cluster.Eventually(t, cluster.Patience, "0 wrong", func(ctx context.Context) error {
		seen, err := random.Run(ctx, env.Exec, placed, paths)
		if err != nil {
			return err
		}
		wrong, leaked := random.Verdict(placed, paths, seen)
		if leaked > 0 {
			t.Fatalf("%d of %d paths were heard by somebody who must not: %q", leaked, len(paths), wrong)
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d of %d paths are wrong: %q", len(wrong), len(paths), wrong[:min(len(wrong), 20)])
		}
		return nil
	})
	names := 0
	for _, from := range placed {
		names += lookUp(t, from, services)
	}
	t.Attr("paths", random.Count(paths))
	t.Logf("%s; %d names; 0 wrong", random.Count(paths), names)
}

// build makes a scene, and returns what the cluster gave its pods and Services.
func build(t *testing.T, scene random.Scene) ([]random.Placed, []random.Served) {
	t.Helper()
	var services []random.Served
	for _, n := range scene.Networks {
		var cidrs []v1alpha1.CIDR
		for _, c := range n.Plan.CIDRs {
			cidrs = append(cidrs, v1alpha1.CIDR(c.String()))
		}
		env.Network(t, n.Name, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: cidrs}}})
		env.Namespace(t, n.Name, n.Name)
		t.Logf("Network %s: %s", n.Name, n.Plan.Name)
		both := corev1.IPFamilyPolicyRequireDualStack
		service := env.Service(t, n.Name, "web", corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: []corev1.ServicePort{
			{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: wire.DefaultPort}, {Name: "udp", Protocol: corev1.ProtocolUDP, Port: wire.DefaultPort},
		}})
		served := random.Served{Network: n.Name}
		for _, ip := range service.Spec.ClusterIPs {
			served.ClusterIP = append(served.ClusterIP, netip.MustParseAddr(ip))
		}
		services = append(services, served)
	}
	env.Namespace(t, random.Plain, "")
	env.Namespace(t, random.Infra, "")
	label(t, random.Infra, model.LabelInfrastructure, "true")
	made := make([]*corev1.Pod, len(scene.Pods))
	for i, p := range scene.Pods {
		spec := cluster.PodSpec{Namespace: p.Namespace, Name: p.Name, Node: p.Node}
		if p.Network != random.Default {
			spec.App = "web"
		}
		if p.Asks.IsValid() {
			spec.NICs = fmt.Sprintf(`[{"ip":%q}]`, p.Asks)
		}
		made[i] = env.Pod(t, spec)
	}
	placed := make([]random.Placed, len(scene.Pods))
	for i, pod := range env.WaitReady(t, made...) {
		placed[i] = random.Placed{Pod: scene.Pods[i], UID: string(pod.UID), Own: cluster.AddressesOfPod(t, pod)}
		for _, ip := range pod.Status.PodIPs {
			placed[i].Faces = append(placed[i].Faces, netip.MustParseAddr(ip.IP))
		}
		if asks := scene.Pods[i].Asks; asks.IsValid() && !slices.Contains(placed[i].Own, asks) {
			t.Fatalf("%s asked for %s and has %v", placed[i], asks, placed[i].Own)
		}
	}
	return placed, services
}

// label puts a label on a namespace, as the administrator.
func label(t *testing.T, namespace, key, value string) {
	t.Helper()
	env.Kubectl(t, "label", "namespace", namespace, key+"="+value)
}

// lookUp has a pod look up the names of all Services. Those of its own Network are there, the others' do not exist; pods of
// the default Network ask the cluster's DNS, which knows all. It returns how many names were asked for.
func lookUp(t *testing.T, from random.Placed, services []random.Served) int {
	t.Helper()
	names := map[string][]netip.Addr{}
	for _, s := range services {
		names[s.Network] = nil
		if from.Network == random.Default || from.Network == s.Network {
			names[s.Network] = s.ClusterIP
		}
	}
	cluster.Eventually(t, cluster.Patience, from.String()+" looks all Services up",
		func(ctx context.Context) error { return finds(ctx, from, names) })
	return len(names)
}

// finds has a pod look up the Services web of namespaces, once, and compares what it finds with the addresses of each; none: it
// does not exist.
func finds(ctx context.Context, from random.Placed, services map[string][]netip.Addr) error {
	namespaces := slices.Sorted(maps.Keys(services))
	command := []string{matrix.Program, "resolve"}
	for _, ns := range namespaces {
		command = append(command, "web."+ns+".svc.cluster.local")
	}
	out, err := env.Exec(ctx, from.Namespace, from.Name, nil, command...)
	if err != nil {
		return err
	}
	var names []wire.Name
	if err := json.Unmarshal(out, &names); err != nil || len(names) != len(services) {
		return fmt.Errorf("read %s: %w", out, err)
	}
	var wrong []error
	for i, ns := range namespaces {
		want, got := slices.SortedFunc(slices.Values(services[ns]), netip.Addr.Compare), slices.SortedFunc(slices.Values(names[i].Addresses),
			netip.Addr.Compare)
		if names[i].Error != "" || !slices.Equal(got, want) {
			wrong = append(wrong, fmt.Errorf("to %s %s is %v %s, want %v", from, names[i].Name, got, names[i].Error, want))
		}
	}
	return errors.Join(wrong...)
}
