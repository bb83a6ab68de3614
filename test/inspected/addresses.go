package inspected

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// AddressWorld is a world in which all is well with addresses: Networks red and blue of the same ones, with pods, nodes' blocks,
// a Service, and Gateways.
type AddressWorld struct {
	*World
	Known snapshot.Held
	// Tell changes what a Network's status tells.
	Tell map[string]func(*atoll.NetworkStatus)
}

func NewAddressWorld(t testing.TB) *AddressWorld {
	t.Helper()
	w := &AddressWorld{World: InspectedWorld(t), Tell: map[string]func(*atoll.NetworkStatus){}}
	for i, name := range []string{"n1", "n2"} {
		w.Objects.Nodes[name].Created = time.Unix(5, 0)
		w.Objects.Nodes[name].Assigned = &model.NodeNetwork{
			NodeUID: name, Faces: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("100.64.%d.0/23", 2*i))},
		}
	}
	for _, p := range w.Objects.Pods {
		block := map[string]int{"n1": 0, "n2": 2}[p.Node]
		number := 10*len(p.Key.Namespace) + int(p.Key.Name[len(p.Key.Name)-1]-'0')
		p.Assigned[0].Faces = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("100.64.%d.%d", block, number))}
	}
	red := w.Objects.Networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	red.CompatibleWith = []model.CompatiblePeer{{Network: "blue", Mode: model.ByFace}, {Tenant: "them", Mode: model.Routed}}
	web := w.Objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}]
	web.Created, web.Assigned.NetworkUID = time.Unix(20, 0), red.UID
	w.Objects.Classes["atoll"] = &model.GatewayClass{Name: "atoll"}
	for namespace, address := range map[string]string{"red": "10.9.0.11", "blue": "198.18.0.1"} {
		key := model.GatewayKey{Namespace: namespace, Name: "edge"}
		w.Objects.Gateways[key] = &model.Gateway{
			Key: key, Class: "atoll", Created: time.Unix(30, 0), Held: []netip.Addr{netip.MustParseAddr(address)},
		}
	}
	// Somebody else's Gateway has an address that is none of ours.
	others := model.GatewayKey{Namespace: "red", Name: "others"}
	w.Objects.Gateways[others] = &model.Gateway{Key: others, Class: "others", Held: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	told := w.Held()
	w.Known = told
	w.Known.Pools = snapshot.ClusterRanges{
		Faces:    []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Gateways: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16")},
	}
	w.Known.Status = func(name, uid string) (atoll.NetworkStatus, bool) {
		s, known := told.Status(name, uid)
		if name == "red" {
			s.ServiceCIDRs = []atoll.ServiceCIDRStatus{{CIDR: "10.9.0.0/24", Used: 2, Free: 252}}
		}
		if change := w.Tell[name]; change != nil {
			change(&s)
		}
		return s, known
	}
	return w
}

// Pod is a pod of a Network.
func (w *AddressWorld) Pod(namespace, name string) *model.Pod {
	return w.Objects.Pods[model.PodKey{Namespace: namespace, Name: name}]
}

// Plant puts a port into a switch of red.
func (w *AddressWorld) Plant(name, address string, ids map[string]string) {
	port := &nb.LogicalSwitchPort{UUID: name, Name: name, Addresses: []string{"0a:58:0a:00:00:63 " + address}, ExternalIDs: ids}
	w.Rows[nb.RefOf(port)] = port
	front := Find[*nb.LogicalSwitch](w.World, "red/front")
	front.Ports = append(front.Ports, port.UUID)
}

func (w *AddressWorld) AddFlat(name string, created int64, cidr string) {
	w.Objects.Networks[name] = &model.Network{
		Name: name, UID: name, Type: model.Flat, Created: time.Unix(created, 0), Subnets: []model.Subnet{
			{Name: "all", CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}},
		},
	}
}
