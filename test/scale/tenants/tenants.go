package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// creators is how many objects are made at once.
	creators = 16
	// perTenant is how many Networks a tenant has.
	perTenant = 3
)

func tenantName(i int) string { return fmt.Sprintf("tenant-%03d", i) }

func subnet() v1alpha1.Subnet {
	return v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24"}}
}

// homes are the Networks of a tenant. The controller makes the first one.
func homes(tenant string) [perTenant]string {
	return [perTenant]string{tenant, tenant + "--db", tenant + "--svc"}
}

// usage is what was used until now.
type usage struct {
	northd      time.Duration
	rows, flows int
}

// used waits until northd has done its part, and looks.
func (m *measuring) used(ctx context.Context) (out usage, err error) {
	if _, err = m.Database.NBCtl(ctx, "--timeout=600", "--wait=sb", "sync"); err != nil {
		return out, err
	}
	if out.northd, err = lab.CPUOf(m.Database.PID("northd")); err != nil {
		return out, err
	}
	for _, table := range []string{
		"Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy", "Logical_Switch", "Logical_Switch_Port",
		"Load_Balancer",
		"Load_Balancer_Group", "ACL", "Port_Group", "Address_Set",
	} {
		text, err := m.Database.NBCtl(ctx, "--timeout=120", "--bare", "--columns=_uuid", "list", table)
		if err != nil {
			return out, err
		}
		out.rows += len(strings.Fields(text))
	}
	text, err := m.Database.SBCtl(ctx, "--timeout=120", "--bare", "--columns=_uuid", "list", "Logical_Flow")
	out.flows = len(strings.Fields(text))
	return out, err
}

// atSize makes tenants up to a number, and measures what each of them took.
func (m *measuring) atSize(ctx context.Context, from, upTo int) error {
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return err
	}
	before, err := m.used(ctx)
	if err != nil {
		return err
	}
	controller, err := m.Controller.CPU()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := m.tenantsTo(ctx, from, upTo); err != nil {
		return err
	}
	ready := time.Since(start)
	after, err := m.used(ctx)
	if err != nil {
		return err
	}
	carried := time.Since(start)
	spent, err := m.Controller.CPU()
	if err != nil {
		return err
	}
	others, err := meter.Others()
	if err != nil {
		return err
	}
	n := float64(upTo - from)
	m.out.Sizes = append(m.out.Sizes, size{
		Tenants: upTo, Made: upTo - from, ReadySeconds: ready.Seconds(), CarriedSeconds: carried.Seconds(), Others: others,
		RowsEach: float64(after.rows-before.rows) / n, FlowsEach: float64(after.flows-before.flows) / n,
		NorthdEach: ms(after.northd-before.northd) / n, ControllerEach: ms(spent-controller) / n, Flows: after.flows,
	})
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// warmUp makes the first tenant, and a pod on every node.
func (m *measuring) warmUp(ctx context.Context) error {
	const namespace = "everywhere"
	if err := m.namespace(ctx, namespace, nil); err != nil {
		return err
	}
	if err := m.pods(ctx, m.o.nodes, namespace); err != nil {
		return err
	}
	return m.tenantsTo(ctx, 0, 1)
}

// tenantsTo makes tenants with their Networks, namespaces and pods, and waits until all is Ready.
func (m *measuring) tenantsTo(ctx context.Context, from, upTo int) error {
	load := lab.Load{Count: upTo - from, Workers: creators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return m.tenant(ctx, tenantName(from+i)) }); err != nil {
		return err
	}
	if err := harness.Await(ctx, fmt.Sprintf("%d tenants Ready", upTo), func(ctx context.Context) (bool, error) {
		list, err := m.tenants.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for _, t := range list.Items {
			phase, _, _ := unstructured.NestedString(t.Object, "status", "phase")
			networks, _, _ := unstructured.NestedInt64(t.Object, "status", "networks")
			if phase == string(v1alpha1.NetworkReady) && networks == perTenant {
				ready++
			}
		}
		return ready >= upTo, nil
	}); err != nil {
		return err
	}
	var namespaces []string
	for i := from; i < upTo; i++ {
		for _, network := range homes(tenantName(i)) {
			namespaces = append(namespaces, network)
		}
	}
	return m.pods(ctx, m.o.pods, namespaces...)
}

// tenant makes one tenant and its Networks, with a namespace for each.
func (m *measuring) tenant(ctx context.Context, name string) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Tenant", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"networkTemplate": map[string]any{"subnets": []any{map[string]any{"name": "a", "cidrs": []any{"10.0.0.0/24"}}}}},
	}}
	if _, err := m.tenants.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make Tenant %s: %w", name, err)
	}
	for i, network := range homes(name) {
		if i > 0 {
			n := lab.Network(network, subnet())
			n.Spec.Tenant = name
			if i == perTenant-1 {
				n.Spec.ServiceCIDRs, n.Spec.CompatibleWith = []v1alpha1.CIDR{"10.9.0.0/24"}, []v1alpha1.CompatiblePeer{{All: true}}
			}
			if err := m.Apply(ctx, n); err != nil {
				return err
			}
		}
		if err := m.namespace(ctx, network, homeOf(network, name)); err != nil {
			return err
		}
	}
	return nil
}

// homeOf are the labels of a tenant's namespace whose pods go into a Network.
func homeOf(network, tenant string) map[string]string {
	return map[string]string{model.LabelNetwork: network, model.LabelTenant: tenant}
}

// step is how many Networks are made before ovn-northd is waited for: it falls behind for minutes where a thousand come at once.
const step = 50

// make makes Networks, a namespace for each, and so many pods in each.
func (m *measuring) make(ctx context.Context, pods int, networks ...*v1alpha1.Network) error {
	for some := range slices.Chunk(networks, step) {
		if err := m.CreateNetworks(ctx, some...); err != nil {
			return err
		}
		var names []string
		for _, n := range some {
			if err := m.namespace(ctx, n.Name, homeOf(n.Name, n.Spec.Tenant)); err != nil {
				return err
			}
			names = append(names, n.Name)
		}
		if err := m.pods(ctx, pods, names...); err != nil {
			return err
		}
		if _, err := m.Database.NBCtl(ctx, "--timeout=600", "--wait=sb", "sync"); err != nil {
			return err
		}
		m.networks += len(some)
		m.progress.Say("%d Networks", m.networks)
	}
	return nil
}

func (m *measuring) namespace(ctx context.Context, name string, labels map[string]string) error {
	_, err := m.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
		metav1.CreateOptions{})
	return err
}

// pods makes so many pods in each namespace, and waits for their ports.
func (m *measuring) pods(ctx context.Context, each int, namespaces ...string) error {
	var pods []lab.Pod
	for _, ns := range namespaces {
		for i := range each {
			pods = append(pods, lab.Pod{
				Key:  model.PodKey{Namespace: ns, Name: fmt.Sprintf("pod-%d", i)},
				Node: fmt.Sprintf("node-%03d", m.made%m.o.nodes),
			})
			m.made++
		}
	}
	load := lab.Load{Count: len(pods), Workers: creators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return m.CreatePod(ctx, pods[i]) }); err != nil {
		return err
	}
	var ports []string
	for _, p := range pods {
		ports = append(ports, p.Port())
	}
	return m.Ports.Await(ctx, ports, m.Ports.Seen, m.Controller.Done())
}
