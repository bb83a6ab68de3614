package nb_test

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

func TestOwnersAreRead(t *testing.T) {
	for text, want := range map[string]nb.Owner{
		"Network/red":                   nb.NetworkOwner("red"),
		"Node/n1":                       nb.NodeOwner("n1"),
		"Pod/team/web-0":                nb.PodOwner("team", "web-0"),
		"Service/team/web":              nb.ServiceOwner("team", "web"),
		"Gateway/team/front":            nb.GatewayOwner("team", "front"),
		"PortGroup/red/atoll_0f":        nb.PortGroupOwner("red", "atoll_0f"),
		"PortGroup/red/a/b":             nb.PortGroupOwner("red", "a/b"),
		"Log/policies":                  nb.LogOwner(""),
		"Log/policies/team":             nb.LogOwner("team"),
		"NetworkPolicy/red/team/deny":   nb.PolicyOwner(nb.KindNetworkPolicy, "team", "deny", "red"),
		"ClusterNetworkPolicy/red/deny": nb.PolicyOwner(nb.KindClusterNetworkPolicy, "", "deny", "red"),
		"orphan/ACL/0815":               nb.OrphanOwner(nb.Ref{Table: nb.TableACL, UUID: "0815"}),
		"evicted/0815":                  nb.EvictedOwner("0815"),
	} {
		if got := want.String(); got != text {
			t.Errorf("%#v is written %q, not %q", want, got, text)
		}
		if got, ok := nb.ParseOwner(text); !ok || got != want {
			t.Errorf("%q is read as %#v, %v; not %#v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "Pod", "Pod/", "Pod/team", "Pod/team/", "Pod//web", "Thing/red", "Network/", "NetworkPolicy/red/deny", "red",
	} {
		if got, ok := nb.ParseOwner(text); ok || got != (nb.Owner{Name: text}) {
			t.Errorf("%q is read as %#v, %v", text, got, ok)
		}
	}
}

func TestOwnersHaveAnOrder(t *testing.T) {
	order := []nb.Owner{
		nb.GatewayOwner("a", "z"), nb.NetworkOwner("a"), nb.NetworkOwner("b"),
		nb.PolicyOwner(nb.KindNetworkPolicy, "a", "z", "blue"), nb.PolicyOwner(nb.KindNetworkPolicy, "a", "a", "red"), nb.PodOwner("a", "b"),
		nb.PodOwner("b", "a"),
	}
	for i, a := range order {
		for j, b := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%v compared with %v: %d, want %d", a, b, got, want)
			}
		}
	}
}
