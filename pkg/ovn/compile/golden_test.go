package compile_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden compiles each testdata/*.in.yaml, a Network followed by pods that carry their attachments and Services that
// carry their addresses, each before its slices, and compares rows and problems with the .out.yaml beside it. A pair of files is a case.
func TestGolden(t *testing.T) { compareFiles(t, "testdata", ".out.yaml", compileFile) }

// compareFiles compiles each .in.yaml of a directory and compares what comes of it with the file beside it that has the
// other ending.
func compareFiles(t *testing.T, directory, ending string, compiled func(*testing.T, []byte) []byte) {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(directory, "*.in.yaml"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no cases in %s (%v)", directory, err)
	}
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			got := compiled(t, raw)
			out := strings.TrimSuffix(in, ".in.yaml") + ending
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", out, diff)
			}
			if again := compiled(t, raw); !bytes.Equal(got, again) {
				t.Error("compiling again gives other bytes")
			}
		})
	}
}

// planFile reads the documents of a case, and plans the Network that is the first one. The defaults are those of a cluster
// that says nothing else.
func planFile(t *testing.T, raw []byte) (n *model.Network, l compile.Layout, problems []model.Problem, others []string) {
	t.Helper()
	documents := strings.Split(string(raw), "\n---\n")
	var in v1alpha1.Network
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &in); err != nil {
		t.Fatal(err)
	}
	n = intake.Network(&in)
	l, problems = compile.Plan(*n, cluster())
	l.Faces = true
	return n, l, problems, documents[1:]
}

func cluster() compile.Cluster {
	return compile.Cluster{
		DefaultSubnet: netip.MustParsePrefix("10.128.0.0/14"),
		Services:      []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")},
	}
}

func faces() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}
}

func compileFile(t *testing.T, raw []byte) []byte {
	t.Helper()
	n, layout, problems, documents := planFile(t, raw)
	var out bytes.Buffer
	for _, p := range problems {
		fmt.Fprintf(&out, "# %s: %s\n", p.Reason, p.Message)
	}
	ranges, problems := compile.PlanServices(*n, cluster())
	for _, p := range problems {
		fmt.Fprintf(&out, "# %s: %s\n", p.Reason, p.Message)
	}
	for _, r := range ranges {
		fmt.Fprintf(&out, "# service range %s\n", r)
	}
	write(t, &out, nb.NetworkOwner(n.Name), compile.Network(layout, faces()))
	for i, d := range documents {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(d), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind == "EndpointSlice" {
			continue
		}
		if kind.Kind == "Service" {
			service, backends := readService(t, documents[i:])
			backends.Layout = layout
			write(t, &out, nb.ServiceOwner(service.Key.Namespace, service.Key.Name), compile.Service(service, []compile.Backends{backends}))
			continue
		}
		var p corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(d), &p); err != nil {
			t.Fatal(err)
		}
		m := intake.Pod(&p)
		if m == nil || len(m.Assigned) != 1 {
			t.Fatalf("pod %s has no attachment", p.Name)
		}
		write(t, &out, nb.PodOwner(p.Namespace, p.Name), compile.Pod(layout, *m, m.Assigned[0], 0))
	}
	return out.Bytes()
}

// readService reads a Service and the slices that follow it.
func readService(t *testing.T, documents []string) (model.Service, compile.Backends) {
	t.Helper()
	var in corev1.Service
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &in); err != nil {
		t.Fatal(err)
	}
	service := intake.Service(&in)
	if service == nil {
		t.Fatalf("Service %s has no addresses", in.Name)
	}
	b := compile.Backends{Ports: make([][]netip.AddrPort, len(service.Ports))}
	if service.Assigned != nil {
		b.VIPs = service.Assigned.Addresses
	}
	for _, d := range documents[1:] {
		var in discoveryv1.EndpointSlice
		if err := yaml.UnmarshalStrict([]byte(d), &in); err != nil || in.Kind != "EndpointSlice" {
			break
		}
		slice := intake.Slice(&in)
		for i, p := range service.Ports {
			for _, q := range slice.Ports {
				for _, e := range slice.Endpoints {
					if p.Name == q.Name && p.Protocol == q.Protocol {
						b.Ports[i] = append(b.Ports[i], netip.AddrPortFrom(e.Address, q.Port))
					}
				}
			}
		}
	}
	return *service, b
}

// write prints facts as one YAML document per row, member columns left out, and one line per member.
func write(t *testing.T, out *bytes.Buffer, owner nb.Owner, facts nb.Facts) {
	t.Helper()
	names := map[string]string{}
	fmt.Fprintf(out, "# %s\n", owner)
	for _, row := range facts.Rows {
		columns, v := map[string]any{}, reflect.ValueOf(row).Elem()
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				columns[v.Type().Field(i).Tag.Get("ovsdb")] = v.Field(i).Interface()
			}
		}
		names[row.ID()] = fmt.Sprint(columns["name"])
		if acl, ok := row.(*nb.ACL); ok && acl.Name != nil {
			names[row.ID()] = *acl.Name
		}
		if route, ok := row.(*nb.StaticRoute); ok {
			names[row.ID()] = route.IPPrefix + " via " + route.Nexthop
		}
		text, err := yaml.Marshal(map[string]any{row.Table().String(): columns})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, m := range facts.Members {
		in := names[m.Row.UUID]
		if in == "" {
			in = m.Row.UUID
		}
		what := names[m.Value]
		if m.IsValue() {
			what = m.Value
		}
		if m.IsMap() {
			key, value := nb.SplitPair(m.Value)
			what = key + " = " + value
		}
		fmt.Fprintf(out, "# %s %s holds %s\n", in, m.Column, what)
	}
	out.WriteString("---\n")
}
