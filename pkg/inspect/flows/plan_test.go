package flows

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/test/inspected"
)

// only sees some Networks and namespaces.
func only(networks, namespaces string) Sight {
	has := func(list string) func(string) (bool, error) {
		return func(name string) (bool, error) { return strings.Contains(" "+list+" ", " "+name+" "), nil }
	}
	return Sight{Network: has(networks), Namespace: has(namespaces)}
}

// TestWhoseAddressesOfFlowsAre: an address belongs to its holder in the flow's Network, or in a Network that is joined with it. A
// holder that was created after the flow does not count. The holder is named only to users who may see it.
func TestWhoseAddressesOfFlowsAre(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	w.Objects.Services[model.ServiceKey{Namespace: "blue", Name: "shop"}] = &model.Service{
		Key: model.ServiceKey{Namespace: "blue", Name: "shop"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")},
	}
	w.Objects.Services[snapshot.APIKey()] = &model.Service{Key: snapshot.APIKey(), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}}
	w.Objects.Nodes["n1"] = &model.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	w.Objects.Nodes["n9"] = &model.Node{Name: "n9", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}}
	settings, err := config.Parse(config.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	settings.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	faced := settings.Faces[0].Addr().Next().Next()
	w.Objects.Pods[model.PodKey{Namespace: "blue", Name: "web-1"}].Assigned[0].Faces = []netip.Addr{faced}
	held := w.Held()
	joined := func(blue bool) snapshot.Held {
		out := held
		out.Status = func(name, uid string) (atoll.NetworkStatus, bool) {
			s, known := held.Status(name, uid)
			if name == "red" {
				s.Compatibility = []atoll.CompatibilityStatus{
					{
						Network: "blue", Direction: atoll.CompatibilityServes, Mode: "Routed", Addresses: true,
						State: map[bool]string{true: "Active", false: "Refused"}[blue],
					},
				}
			}
			return s, known
		}
		return out
	}
	own := func(namespace, name string) string {
		return w.Objects.Pods[model.PodKey{Namespace: namespace, Name: name}].Assigned[0].Addresses[0].Addr().String()
	}
	if own("red", "web-1") != own("blue", "web-1") {
		t.Fatal("this test shows nothing: addresses differ")
	}
	// An address that only blue has allocated.
	lone := w.Objects.Pods[model.PodKey{Namespace: "blue", Name: "web-2"}]
	lone.Assigned[0].Addresses[0] = netip.MustParsePrefix("10.0.0.200/24")
	all, now := Sight{}, time.Unix(1000, 0)
	for name, c := range map[string]struct {
		held    snapshot.Held
		sight   Sight
		address string
		when    time.Time
		want    string
	}{
		"a pod of the Network":                         {held, all, own("red", "web-1"), now, "pod red/web-1"},
		"to the Network's admin":                       {held, only("red", ""), own("red", "web-1"), now, "pod red/web-1"},
		"to who sees the namespace":                    {held, only("", "red"), own("red", "web-1"), now, "pod red/web-1"},
		"to who sees another":                          {held, only("blue", "blue"), own("red", "web-1"), now, " "},
		"before it was made":                           {held, all, own("red", "web-1"), time.Unix(9, 0), " "},
		"an address of another Network":                {held, all, "10.0.0.200", now, " "},
		"of one that is joined":                        {joined(true), all, "10.0.0.200", now, "pod blue/web-2"},
		"of one that is joined, to the Network's":      {joined(true), only("red", "red"), "10.0.0.200", now, " "},
		"of one that is joined, to the other's":        {joined(true), only("red blue", ""), "10.0.0.200", now, "pod blue/web-2"},
		"of one that is not, and asks":                 {joined(false), all, "10.0.0.200", now, " "},
		"a face":                                       {held, all, faced.String(), now, "pod blue/web-1"},
		"a face, to the Network's admin":               {held, only("red", "red"), faced.String(), now, " "},
		"a face, to who sees the namespace":            {held, only("red", "blue"), faced.String(), now, "pod blue/web-1"},
		"the router":                                   {held, only("red", ""), "10.0.0.1", now, "router red"},
		"another's Service":                            {held, only("red", "red"), "10.96.0.7", now, " "},
		"another's Service, to all":                    {held, all, "10.96.0.7", now, "service blue/shop"},
		"the Kubernetes API":                           {held, only("red", "red"), "10.96.0.1", now, "service default/kubernetes"},
		"a node with his pods":                         {held, only("red", ""), "192.0.2.1", now, "node n1"},
		"another node":                                 {held, only("red", ""), "192.0.2.9", now, " "},
		"another node, to all":                         {held, all, "192.0.2.9", now, "node n9"},
		"outside":                                      {held, only("red", ""), "203.0.113.5", now, "outside "},
		"an address of the Network that nobody has":    {held, all, "10.0.0.99", now, " "},
		"a face that nobody has":                       {held, all, faced.Next().String(), now, " "},
		"of the cluster's Services that nobody has":    {held, all, settings.Services[0].Addr().Next().Next().String(), now, " "},
		"a link-local address, which is nobody's else": {held, all, "169.254.1.1", now, " "},
	} {
		n := newFlowNames(c.held, settings, c.sight, map[string]bool{"n1": true})
		f := model.Flow{
			Network: "red", Direction: "Ingress", Pod: "red/web-0", Last: c.when, Source: netip.MustParseAddr(c.address),
			Destination: netip.MustParseAddr(own("red", "web-0")),
		}
		if got := n.end(f, f.Source, false); got.Kind+" "+got.Name != c.want || got.Address != c.address {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		} else if in, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(c.want, "pod "), "router "),
			"/"); strings.HasPrefix(c.want, "pod ") || strings.HasPrefix(c.want, "router ") {
			// Each Network of this world has the name of its namespace.
			if got.Network != in {
				t.Errorf("%s: it is in Network %q, want %s", name, got.Network, in)
			}
		} else if got.Network != "" {
			t.Errorf("%s: it is in Network %s, and nobody may know of any", name, got.Network)
		}
		if got := n.end(f, f.Destination, true); got.Kind != api.FlowPod || got.Name != "red/web-0" || got.Network != "red" {
			t.Errorf("%s: the pod that was judged is %+v", name, got)
		}
	}
}

// TestOneOfMillionsIsNotOne: what came together has no addresses, and the pod alone that was judged.
func TestOneOfMillionsIsNotOne(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	settings, err := config.Parse(config.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	n := newFlowNames(w.Held(), settings, Sight{}, nil)
	if got := fmt.Sprintf("%+v", n.end(model.Flow{Network: "red"}, netip.Addr{}, false)); got != fmt.Sprintf("%+v", api.FlowEnd{}) {
		t.Error(got)
	}
}
