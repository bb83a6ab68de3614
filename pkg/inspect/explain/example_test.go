package explain

import (
	"cmp"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/demo/tenants"
	"github.com/atoll-net/atoll/test/inspected"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// tenantsWorld is docs/examples/tenants, as a cluster would have it.
func tenantsWorld(t *testing.T) *inspected.World {
	t.Helper()
	w := inspected.WorldOf(t, nil, 0)
	w.Settings = defaultsof.Of(inspected.Explained())
	for i, name := range []string{"n1", "n2", "n3"} {
		w.AddNode(name, i)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", tenants.Example, "*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	var services []corev1.Service
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range strings.Split(string(text), "\n---\n") {
			apply(w, document, i, &services)
		}
	}
	w.Settle()
	dns := inspected.Explained().DNS.Service
	w.Objects.Services[dns] = &model.Service{
		Key: dns, UID: "uid-dns", Created: time.Unix(1, 0), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports: []model.ServicePort{{Protocol: model.UDP, Port: dnsPort}},
	}
	ip := netip.MustParseAddr("10.96.2.1")
	for _, s := range services {
		key := model.ServiceKey{Namespace: s.Namespace, Name: s.Name}
		var behind []*model.Pod
		for _, p := range w.Objects.Pods {
			if p.Key.Namespace == s.Namespace && p.Labels["app"] == s.Spec.Selector["app"] {
				behind = append(behind, p)
			}
		}
		ports := []model.ServicePort{{Name: "echo", Protocol: model.TCP, Port: uint16(s.Spec.Ports[0].Port)}}
		if s.Spec.ClusterIP != corev1.ClusterIPNone {
			s.Spec.ClusterIPs, ip = []string{ip.String()}, ip.Next()
			s.Spec.Ports[0].Protocol = corev1.ProtocolTCP
			w.Objects.Services[key] = intake.Service(&s)
		}
		w.Slice(key, ports, behind...)
	}
	w.Settle()
	return w
}

// apply takes in a document of a manifest, with what the API server would have filled in.
func apply(w *inspected.World, document string, i int, services *[]corev1.Service) {
	w.T.Helper()
	var kind metav1.TypeMeta
	read := func(into any) {
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			w.T.Fatal(err)
		}
	}
	read(&kind)
	made := metav1.NewTime(time.Unix(int64(i), 0))
	switch kind.Kind {
	case "Network":
		var n v1alpha1.Network
		read(&n)
		n.UID, n.Generation, n.CreationTimestamp = types.UID("uid-"+n.Name), 1, made
		m := intake.Network(&n)
		m.Infra, m.Egress, m.DNS = cmp.Or(m.Infra, model.InfraServices), cmp.Or(m.Egress, model.EgressNode), cmp.Or(m.DNS, model.DNSNode)
		for i := range m.CompatibleWith {
			m.CompatibleWith[i].Mode = cmp.Or(m.CompatibleWith[i].Mode, model.ByFace)
		}
		m.Finalized = true
		w.Objects.Networks[n.Name] = m
	case "Tenant":
		var tenant v1alpha1.Tenant
		read(&tenant)
		tenant.UID, tenant.CreationTimestamp = types.UID("uid-tenant-"+tenant.Name), made
		w.Objects.Tenants[tenant.Name] = intake.Tenant(&tenant)
	case "Namespace":
		var ns corev1.Namespace
		read(&ns)
		w.Objects.Namespaces[ns.Name] = intake.Namespace(&ns)
	case "Pod":
		var p corev1.Pod
		read(&p)
		p.UID, p.Spec.NodeName, p.CreationTimestamp = types.UID("uid-"+p.Name), p.Spec.NodeSelector[corev1.LabelHostname], made
		w.Objects.Pods[model.PodKey{Namespace: p.Namespace, Name: p.Name}] = intake.Pod(&p)
	case "Service":
		var s corev1.Service
		read(&s)
		s.UID, s.CreationTimestamp = types.UID("uid-"+s.Name+s.Namespace), made
		*services = append(*services, s)
	}
}

// TestExplainSaysWhatTheTenantsExampleShows: who reaches whom, as whom, and where names lead, of every cell of the example's page.
// TestTenantsExample compares the same page with what real packets do.
func TestExplainSaysWhatTheTenantsExampleShows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", tenants.Page))
	if err != nil {
		t.Fatal(err)
	}
	want, err := tenants.Want(string(page))
	if err != nil {
		t.Fatal(err)
	}
	w := tenantsWorld(t)
	world := explainable(w)
	pods := map[string]*model.Pod{}
	known := map[string]string{}
	for _, p := range w.Objects.Pods {
		pods[p.Key.Name], known[p.Assigned[0].Faces[0].String()] = p, "face of "+p.Key.Name
	}
	word := func(address string) string { return cmp.Or(known[address], address) }
	ask := func(from string, to question.End, port uint16) Explanation {
		got, err := Explain(world, question.Question{From: question.End{Pod: pods[from].Key}, To: to, Protocol: model.TCP, Port: port})
		if err != nil {
			t.Errorf("%s to %s: %v", from, to, err)
		}
		return got
	}
	cell := func(from, column string) string {
		switch a, err := netip.ParseAddr(column); {
		case from == column:
			return "self"
		case pods[column] != nil:
			if got := ask(from, question.End{Address: pods[column].Assigned[0].Faces[0]}, wire.DefaultPort); got.Reached {
				return word(got.Ways[0].SeenAs)
			}
			return "-"
		case err == nil:
			// What leaves the cluster there meets nobody in the sandbox.
			if got := ask(from, question.End{Address: a}, 80); got.Reached && !strings.HasPrefix(got.Ways[0].To, question.OutsideWord) {
				_, name, _ := strings.Cut(got.Ways[0].To, "/")
				return name + " sees " + word(got.Ways[0].SeenAs)
			}
			return "-"
		}
		got := ask(from, question.End{Name: column + ".svc.cluster.local."}, 80)
		if h := got.First(); h != nil && h.Layer == LayerName {
			return "no"
		}
		dialled, _ := netip.ParseAddrPort(got.Ways[0].Dialled)
		return word(dialled.Addr().String())
	}
	cells := 0
	for _, table := range want {
		for _, row := range table.Rows {
			for i, column := range table.Columns[1:] {
				cells++
				if got := cell(row[0], column); got != row[i+1] {
					t.Errorf("%s, %s: explained as %q, and the page has %q", row[0], column, got, row[i+1])
				}
			}
		}
	}
	if cells < 100 || !slices.ContainsFunc(want[0].Rows[0], func(c string) bool { return c == "-" }) {
		t.Errorf("%d cells", cells)
	}
}
