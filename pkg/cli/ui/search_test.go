package ui

import (
	"net/http"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestAnAddressInThreeNetworks: a search for it shows three, each with who has it there; and says where nobody has.
func TestAnAddressInThreeNetworks(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(t))
	text := s.says("/search?q=10.0.0.10", "3 Networks have it. In each it is somebody else's.", "3 found",
		"acme-web Pod acme-web/same Subnet 10.0.0.10 n2", "blue Pod blue/same", "red Pod red/same",
		"Nobody has it in 3 Networks whose ranges have it: green , acme-ci , umbrella")
	if n := strings.Count(text, `<th scope="row">`); n != 3 {
		t.Errorf("it has %d lines", n)
	}
	s.says("/search?q=10.0.1.2", "2 Networks have it.", "red/db-0", "blue/db-0")
	s.says("/search?q=10.0.0.1", "6 Networks have it.", "red Router red")
	s.says("/search?q=10.0.0.200", "0 Networks have it.", "Nothing that you may see is called so, or has it", "Nobody has it in 6 Networks")
	s.says("/search?q=192.0.2.9", "0 Networks have it.", "Nothing that you may see")
}

// TestFaces: a face is a pod's, and of no Network.
func TestFaces(t *testing.T) {
	t.Parallel()
	c := sample(t)
	faces := api.IPAM{Status: api.IPAMStatus{
		Pools: []api.AddressPool{{Use: api.UseFaces, CIDR: "100.64.0.0/10"}}, Holders: []api.Holder{
			{Address: "100.64.0.1", Use: api.UseFaces, Kind: "Pod", Name: "red/web-1", Node: "n2"},
		},
	}}
	faces.Name = api.ClusterPools
	c.ipams = append(c.ipams, faces)
	s := newSite(t, c)
	text := s.says("/search?q=100.64.0.1", "0 Networks have it.", "Pod red/web-1 Faces 100.64.0.1 n2")
	if !strings.Contains(text, `<a href="/pod/red/web-1">red/web-1</a>`) {
		t.Error("it does not lead to the pod")
	}
	s.says("/network/system:cluster/addresses", "Faces of pods", "100.64.0.0/10")
}

// TestNames: a part of a name finds Networks, tenants, subnets, Gateways and pods.
func TestNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(t))
	s.says("/search?q=same", "3 found", "blue/same", "red/same", "acme-web/same")
	s.says("/search?q=ACME", "acme-ci Network acme-ci vpc, Ready, tenant acme", "Pod acme-web/shop")
	s.says("/search?q=edge", "1 found", "red Gateway red/edge 10.9.0.11")
	s.says("/search?q=umbrella/back", "umbrella Subnet umbrella/back 10.0.1.0/24")
	s.says("/search?q=nowhere", "Nothing that you may see")
	for _, q := range []string{"", "%20", strings.Repeat("a", 254)} {
		if status, _ := s.get("/search?q=" + q); status != http.StatusBadRequest {
			t.Errorf("%q: status %d", q, status)
		}
	}
}

// TestATenantFindsHisOwn: a tenant who may list the pods of some namespaces only finds these pods. The control is that another
// tenant's pods exist.
func TestATenantFindsHisOwn(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.namespaces = []string{"acme-web"}
	s := newSite(t, c)
	text := s.says("/search?q=same", "1 found", "acme-web/same")
	if strings.Contains(text, "red/same") {
		t.Error("it finds somebody else's")
	}
	s.says("/network/acme-web/pods", "2 pods", "acme-web/shop")
	s.says("/network/red/pods", "No pod that you may see is in it.")
	c.namespaces = nil
	s.says("/network/red/pods", "6 pods")
}

// TestAnAddressInAThousand: with so many Networks a search lists only pods for most of them, and the page says so.
func TestAnAddressInAThousand(t *testing.T) {
	t.Parallel()
	newSite(t, thousand()).says("/search?q=10.0.0.3", "1000 Networks have it.", "200 found", "and 800 more",
		"1000 Networks have a range with 10.0.0.3: of all but 64, pods alone were looked at")
}
