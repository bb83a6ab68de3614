package intake

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestMirror(t *testing.T) {
	m := model.Mirror{
		Network: "red", Source: model.SliceKey{Namespace: "a", Name: "web-x"}, SourceUID: "uid", Service: "web",
		Ports: []model.SlicePort{{Name: "http", Protocol: model.TCP, Port: 80}, {Protocol: model.SCTP, Port: 90}},
		Endpoints: []model.Endpoint{
			{
				Address: netip.MustParseAddr("10.0.0.5"), Pod: model.PodKey{Namespace: "a", Name: "web-0"}, PodUID: "pod", Ready: true, Serving: true,
				Hostname: "web-0", Node: "n",
			},
			{Address: netip.MustParseAddr("10.0.0.6"), Serving: true},
		},
	}
	s := Mirror(m)
	if Slice(s) != nil {
		t.Error("a mirror is read as one of Kubernetes' slices, and would be mirrored again")
	}
	if _, is := s.Labels[discoveryv1.LabelServiceName]; is {
		t.Error("a mirror has the label by which Kubernetes knows a Service's slices")
	}
	if _, is := s.Labels[corev1.IsHeadlessService]; !is {
		t.Error("kube-proxy would ask for mirrors")
	}
	if s.AddressType != discoveryv1.AddressTypeIPv4 || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "uid" {
		t.Errorf("%+v", s)
	}
	// Read back under the label that it does not have, it says the same.
	s.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	back := Slice(s)
	for i, want := range m.Endpoints {
		if back.Endpoints[i].Ready {
			t.Errorf("endpoint %d is ready for everybody", i)
		}
		if got := MirrorReady(s.Endpoints[i].Conditions); got != want.Ready {
			t.Errorf("endpoint %d is ready in its Network: %v, want %v", i, got, want.Ready)
		}
		want.Ready = false
		if !back.Endpoints[i].Equal(want) {
			t.Errorf("endpoint %+v, want %+v", back.Endpoints[i], want)
		}
	}
	if len(back.Ports) != 2 || back.Ports[0] != m.Ports[0] || back.Ports[1] != m.Ports[1] {
		t.Errorf("ports %+v, want %+v", back.Ports, m.Ports)
	}
}

// TestFaces: what is written is read, and of what somebody else wrote nothing but faces.
func TestFaces(t *testing.T) {
	addr := netip.MustParseAddr
	ranges := []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}
	if s := Mirror(model.Mirror{}); s.Annotations != nil {
		t.Errorf("a mirror without faces has annotations %v", s.Annotations)
	}
	faces := map[netip.Addr]netip.Addr{addr("10.0.0.6"): addr("100.64.0.6"), addr("10.0.0.5"): addr("100.64.0.5")}
	const text = `{"10.0.0.5":"100.64.0.5","10.0.0.6":"100.64.0.6"}`
	if got := Mirror(model.Mirror{Faces: faces}).Annotations[model.AnnotationFaces]; got != text {
		t.Errorf("written as %s, want %s", got, text)
	}
	for _, test := range []struct {
		what, text string
		want       map[netip.Addr]netip.Addr
	}{
		{"what is written", text, faces},
		{"nothing", "", nil},
		{"nonsense", "{", nil},
		{"a list", `["100.64.0.5"]`, nil},
		{"no address", `{"10.0.0.5":"web"}`, nil},
		{"null", `{"10.0.0.5":null}`, nil},
		{"no face", `{"10.0.0.5":"10.96.0.1","10.0.0.6":"100.64.0.6"}`, map[netip.Addr]netip.Addr{addr("10.0.0.6"): addr("100.64.0.6")}},
		{
			"another IP family", `{"10.0.0.5":"fd64:a701::5","fd00::5":"100.64.0.5","fd00::6":"fd64:a701::6"}`,
			map[netip.Addr]netip.Addr{addr("fd00::6"): addr("fd64:a701::6")},
		},
	} {
		if got := Faces(test.text, ranges); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.what, got, test.want)
		}
	}
}

func TestMirrorKey(t *testing.T) {
	m := model.Mirror{Network: "red", Source: model.SliceKey{Namespace: "a", Name: "web-x"}, SourceUID: "uid"}
	other, later, long := m, m, m
	other.Network, later.SourceUID = "blue", "uid-2"
	keys := map[model.SliceKey]bool{MirrorKey(m): true, MirrorKey(other): true, MirrorKey(later): true}
	if len(keys) != 3 {
		t.Errorf("two mirrors share a name: %v", keys)
	}
	long.Source.Name = strings.Repeat("a", 241) + "." + strings.Repeat("b", 11)
	if name := MirrorKey(long).Name; len(name) > 253 || strings.Contains(name, ".-") {
		t.Errorf("name %q", name)
	}
}
