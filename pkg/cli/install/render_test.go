package install

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// plain is what an overlay needs in a cluster that tells nothing.
func plain() Values {
	return Values{
		Tag: "v0.3.0", ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, DNSAddresses: []netip.Addr{
			netip.MustParseAddr("10.96.0.10"),
		},
	}
}

func prepare(t *testing.T, overlay string, v Values) *Plan {
	t.Helper()
	p, err := Prepare(t.Context(), nil, Options{Source: Source{Overlay: overlay}, Values: v})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTheProgramHasWhatTheRepositoryHas: what is embedded gives the same objects as the directories do.
func TestTheProgramHasWhatTheRepositoryHas(t *testing.T) {
	t.Parallel()
	for overlay, dir := range map[string]string{
		"ha": "../../../dist/overlays/ha", "single": "../../../dist/overlays/single", "existing-ovn": "../../../dist/default",
	} {
		embedded, err := Render(Source{Overlay: overlay})
		if err != nil {
			t.Fatal(err)
		}
		onDisk, err := Render(Source{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(onDisk, embedded); diff != "" || len(embedded) < 20 {
			t.Errorf("%s (-directory +program), %d objects:\n%s", overlay, len(embedded), diff)
		}
	}
	if !slices.Contains(Overlays(), DefaultOverlay) || slices.Contains(Overlays(), "sandbox") {
		t.Errorf("overlays are %v", Overlays())
	}
}

func TestSourcesThatCannotBeRendered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source Source
		want   string
	}{
		{Source{Overlay: "sandbox"}, `no overlay "sandbox": choose one of existing-ovn, ha, single`},
		{Source{Dir: t.TempDir()}, "kustomization"},
	} {
		if _, err := Render(test.source); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.source, err, test.want)
		}
	}
}

// TestValuesThatAreMissing: an error names the flag.
func TestValuesThatAreMissing(t *testing.T) {
	t.Parallel()
	for flag, without := range map[string]func(*Values){
		"--service-cidrs": func(v *Values) { v.ServiceCIDRs = nil },
		"--dns-addresses": func(v *Values) { v.DNSAddresses = nil },
		// A test has no version.
		"--image-tag": func(v *Values) { v.Tag = "" },
	} {
		v := plain()
		without(&v)
		_, err := Prepare(t.Context(), nil, Options{Source: Source{Overlay: "ha"}, Values: v})
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}

func TestValuesAreWhereTheyBelong(t *testing.T) {
	t.Parallel()
	v := plain()
	v.Registry = "registry.example.com/atoll/"
	v.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16"), netip.MustParsePrefix("fd00:8::/64")}
	v.NodeCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	p := prepare(t, "ha", v)
	images := map[string]bool{}
	for _, o := range p.Objects {
		eachContainer(o, func(c map[string]any) { images[c["image"].(string)] = true })
		switch {
		case isKind(o, "atoll.dev", "AtollConfig"):
			got, err := readRanges(o)
			want := ranges{services: v.ServiceCIDRs, pods: v.PodCIDRs, nodes: v.NodeCIDRs, dns: v.DNSAddresses, faces: defaultFaces()}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(ranges{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
				cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
				t.Errorf("AtollConfig (-want +got), %v:\n%s", err, diff)
			}
		case o.GetName() == "atollconfigs.atoll.dev":
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			schema := versions[0].(map[string]any)
			filled, _, err := unstructured.NestedStringSlice(schema, "schema", "openAPIV3Schema", "properties", "spec", "properties", "faceCIDRs",
				"default")
			if want := texts(defaultFaces()); err != nil || !cmp.Equal(filled, want) {
				t.Errorf("the API server fills in faceCIDRs %v, want %v: %v", filled, want, err)
			}
		case isKind(o, "atoll.dev", "Network"):
			subnets, _, _ := unstructured.NestedSlice(o.Object, "spec", "subnets")
			if got := subnets[0].(map[string]any)["cidrs"]; !cmp.Equal(got, []any{"10.8.0.0/16", "fd00:8::/64"}) {
				t.Errorf("the default Network has %v", got)
			}
		}
	}
	if want := map[string]bool{"registry.example.com/atoll/atoll:v0.3.0": true, "registry.example.com/atoll/ovn:v0.3.0": true}; !cmp.Equal(
		images, want) {
		t.Errorf("images are %v, want %v", images, want)
	}
	if p.Version != "v0.3.0" {
		t.Errorf("version %q", p.Version)
	}
}

func TestImageNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ registry, tag, image, want string }{
		{"", "", "ghcr.io/atoll-net/atoll:v1", "ghcr.io/atoll-net/atoll:v1"},
		{"", "v2", "ghcr.io/atoll-net/ovn:v1", "ghcr.io/atoll-net/ovn:v2"},
		{"localhost:5000/a", "", "ghcr.io/atoll-net/atoll:v1", "localhost:5000/a/atoll:v1"},
		{"localhost:5000", "v2", "registry.k8s.io/coredns:v1", "registry.k8s.io/coredns:v1"},
	} {
		if got := (Values{Registry: test.registry, Tag: test.tag}).image(test.image); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
	for image, want := range map[string]string{"localhost:5000/atoll": "", "a/b:v1": "v1", "localhost:5000/a:v1@sha256:00": "v1"} {
		if got := tagOf(image); got != want {
			t.Errorf("tag of %s: got %q, want %q", image, got, want)
		}
	}
}

// TestOrder: what others need comes before them, and whatever an overlay has is a member of the set.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := prepare(t, "ha", plain())
	sorted := split(p.Objects)
	where := map[string]stage{}
	count := 0
	for at, objects := range sorted {
		count += len(objects)
		for _, o := range objects {
			where[o.GetKind()] = stage(at)
			if o.GetLabels()[setMemberLabel] != setID() {
				t.Errorf("%s is no member of the set", nameOf(o))
			}
			if isWorkload(o) && o.GetLabels()[versionLabel] != "v0.3.0" {
				t.Errorf("%s does not tell its version: %v", nameOf(o), o.GetLabels())
			}
		}
	}
	if count != len(p.Objects) {
		t.Errorf("%d of %d objects have a stage", count, len(p.Objects))
	}
	for _, pair := range [][2]string{
		{"Namespace", "ServiceAccount"},
		{"CustomResourceDefinition", "AtollConfig"},
		{"ServiceAccount", "DaemonSet"},
		{"ClusterRole", "Deployment"},
		// Two policies refuse every Service while there is no AtollConfig.
		{"AtollConfig", "ValidatingAdmissionPolicyBinding"},
		{"ValidatingAdmissionPolicyBinding", "DaemonSet"},
	} {
		first, has := where[pair[0]]
		second, hasToo := where[pair[1]]
		if !has || !hasToo || first >= second {
			t.Errorf("%s is in stage %d (%t), %s in %d (%t)", pair[0], first, has, pair[1], second, hasToo)
		}
	}
}
