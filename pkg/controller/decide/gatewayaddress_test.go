package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

func TestAddressesThatAGatewayAsksFor(t *testing.T) {
	address := func(text string) model.GatewayAddress { return model.GatewayAddress{Addr: netip.MustParseAddr(text)} }
	programmed := func(reason string) map[string]string {
		return map[string]string{"Accepted": "Accepted", "Programmed": reason}
	}
	for name, test := range map[string]struct {
		asks []model.GatewayAddress
		want map[string]string
		gets []string
	}{
		"one that is free": {[]model.GatewayAddress{address("198.18.0.4")}, served(), []string{"198.18.0.4"}},
		"two of a family": {
			[]model.GatewayAddress{address("198.18.0.4"), address("198.18.0.6")}, programmed("-AddressNotUsable"), []string{"198.18.0.4"},
		},
		"any":               {[]model.GatewayAddress{{}}, served(), []string{"198.18.0.2"}},
		"one that is taken": {[]model.GatewayAddress{address("198.18.0.1")}, programmed("-AddressNotUsable"), nil},
		"one outside":       {[]model.GatewayAddress{address("10.96.0.5")}, programmed("-AddressNotUsable"), nil},
		"one outside, one free": {
			[]model.GatewayAddress{address("10.0.0.3"), address("198.18.0.4")}, programmed("-AddressNotUsable"), []string{"198.18.0.4"},
		},
		"the range's own": {[]model.GatewayAddress{address("198.18.0.7")}, programmed("-AddressNotUsable"), nil},
		"what is not an address": {
			[]model.GatewayAddress{{Unsupported: "it is a name"}},
			map[string]string{"Accepted": "-UnsupportedAddress", "Programmed": "-Invalid"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := gatewayWorld(t)
			w.setGateway(tcpGateway("r", "first", "web"))
			w.settle()
			g := tcpGateway("r", "front", "web")
			g.Addresses, g.Created = test.asks, time.Unix(5, 0)
			w.setGateway(g)
			w.wantGateway(t, front, test.want)
			if got := addressTexts(w.gatewayStatus(front).Addresses); !slices.Equal(got, test.gets) {
				t.Errorf("it has %v, want %v", got, test.gets)
			}
			if got := len(w.listens(front)); got != len(test.gets) {
				t.Errorf("it listens on %d addresses, want %d", got, len(test.gets))
			}
		})
	}
}

func TestAddressesComeFreeForThoseThatWait(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	for i := range 6 {
		g := tcpGateway("r", fmt.Sprintf("g%d", i), "web")
		g.Created = time.Unix(int64(i), 0)
		w.setGateway(g)
	}
	late := tcpGateway("r", "front", "web")
	late.Created = time.Unix(9, 0)
	w.setGateway(late)
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotAssigned"})
	w.deleteGateway(model.GatewayKey{Namespace: "r", Name: "g3"})
	w.wantGateway(t, front, served())
	if got := addressTexts(w.gatewayStatus(front).Addresses); !slices.Equal(got, []string{"198.18.0.4"}) {
		t.Errorf("it has %v, want what came free", got)
	}
	wanting := tcpGateway("r", "wanting", "web")
	wanting.Addresses = []model.GatewayAddress{{Addr: netip.MustParseAddr("198.18.0.2")}}
	wanting.Created = time.Unix(10, 0)
	w.setGateway(wanting)
	w.wantGateway(t, wanting.Key, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotUsable"})
	// Its holder now asks for another.
	w.deleteGateway(model.GatewayKey{Namespace: "r", Name: "g5"})
	moves := tcpGateway("r", "g1", "web")
	moves.Addresses = []model.GatewayAddress{{Addr: netip.MustParseAddr("198.18.0.6")}}
	w.setGateway(moves)
	w.wantGateway(t, wanting.Key, served())
}

func TestAddressesStayOverARestartAndAFault(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	for _, name := range []string{"x", "y", "front"} {
		w.setGateway(tcpGateway("r", name, "web"))
		w.settle()
	}
	w.deleteGateway(model.GatewayKey{Namespace: "r", Name: "x"})
	w.settle()
	// One that is older than all of them comes while no controller runs.
	before := addressTexts(w.gatewayStatus(front).Addresses)
	oldest := tcpGateway("r", "oldest", "web")
	oldest.Addresses = []model.GatewayAddress{{Addr: w.gatewayStatus(front).Addresses[0]}}
	w.graph = graph.New()
	w.state = decide.NewState(withFaces("100.64.0.0/10"), w.graph, w.cluster)
	for key, g := range w.gateways {
		changed := *g
		changed.Created = time.Unix(100, 0)
		w.gateways[key] = &changed
	}
	w.setGateway(oldest)
	w.replay(map[string]map[string]string{"a": nil, "r": {model.LabelNetwork: "red"}})
	w.wantGateway(t, front, served())
	if got := addressTexts(w.gatewayStatus(front).Addresses); !slices.Equal(got, before) {
		t.Errorf("after a restart it has %v, before %v", got, before)
	}
	w.wantGateway(t, oldest.Key, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotUsable"})
	// A Gateway that makes no sense for a while gets its address again, if nobody has asked for it meanwhile.
	w.deleteGateway(oldest.Key)
	broken := tcpGateway("r", "front", "web")
	broken.Listeners[0].Protocol, broken.Listeners[0].Asked = "", "HTTP"
	w.setGateway(broken)
	w.wantListens(t, front, map[string]string{})
	w.setGateway(tcpGateway("r", "front", "web"))
	w.wantGateway(t, front, served())
	if got := addressTexts(w.gatewayStatus(front).Addresses); !slices.Equal(got, before) {
		t.Errorf("after a fault it has %v, before %v", got, before)
	}
}

func TestNoGatewayGetsAnAddressOfASubnet(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setGateway(tcpGateway("r", "front", "web"))
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": ""})
	w.setNetwork(network("red", "front", "10.0.0.0/24", "more", "198.18.0.0/30"))
	w.wantListens(t, front, map[string]string{"red 198.18.0.4:1000": ""})
	w.setNetwork(network("red", "front", "10.0.0.0/24", "more", "198.18.0.0/24"))
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotAssigned"})
	w.wantListens(t, front, map[string]string{})
}

// A subnet that goes with its last pod takes no address from anybody, and gives its part of the range of Gateways back.
func TestAGatewayKeepsItsAddressWhenASubnetGoes(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNetwork(network("red", "front", "10.0.0.0/24", "more", "198.18.0.4/30"))
	p := asking("r", "last", "red", model.NICRequest{Subnet: "more"})
	w.setPod(p)
	w.setGateway(tcpGateway("r", "front", "web"))
	w.settle()
	w.subnetsNow(t, "red", "front", "10.0.0.0/24")
	want := tcpGateway("r", "want", "web")
	want.Addresses = []model.GatewayAddress{{Addr: netip.MustParseAddr("198.18.0.5")}}
	w.setGateway(want)
	w.wantGateway(t, want.Key, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotUsable"})
	w.deletePod(p.Key)
	w.setGateway(tcpGateway("r", "late", "web"))
	w.wantListens(t, want.Key, map[string]string{"red 198.18.0.5:1000": ""})
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": ""})
	w.wantListens(t, model.GatewayKey{Namespace: "r", Name: "late"}, map[string]string{"red 198.18.0.2:1000": ""})
}

func TestANetworksOwnServiceRangesHaveItsGateways(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNetwork(ranged("red", "10.9.0.0/29"))
	w.settle()
	// The Service of red has the first.
	w.setGateway(tcpGateway("r", "front", "web"))
	w.wantListens(t, front, map[string]string{"red 10.9.0.2:1000": ""})
	w.wantGateway(t, front, served())
	if used := w.status("red").ServiceCIDRs[0].Used; used != 2 {
		t.Errorf("%d addresses of the range are used, want 2", used)
	}
	outside := tcpGateway("r", "outside", "web")
	outside.Addresses = []model.GatewayAddress{{Addr: at("198.18.0.1")}}
	w.setGateway(outside)
	w.wantGateway(t, outside.Key, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotUsable"})

	// Services and Gateways wait for what the others have, and keep theirs over a restart.
	for i := range 4 {
		w.setService(service("r", fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.1.%d", i+1)))
	}
	late := service("r", "late", "10.96.1.9")
	late.Created = time.Unix(9, 0)
	w.setService(late)
	w.settle()
	if a := w.services[late.Key].Assigned; a != nil {
		t.Fatalf("the range holds more than it has: %v", a)
	}
	w.graph = graph.New()
	w.state = decide.NewState(withFaces("100.64.0.0/10"), w.graph, w.cluster)
	w.replay(map[string]map[string]string{"a": nil, "r": {model.LabelNetwork: "red"}})
	w.wantListens(t, front, map[string]string{"red 10.9.0.2:1000": ""})
	w.deleteGateway(front)
	w.settle()
	if a := w.services[late.Key].Assigned; a == nil || !slices.Equal(addressTexts(a.Addresses), []string{"10.9.0.2"}) {
		t.Errorf("the Service that waited for the Gateway's address has %v", a)
	}
	again := tcpGateway("r", "again", "web")
	w.setGateway(again)
	w.wantGateway(t, again.Key, map[string]string{"Accepted": "Accepted", "Programmed": "-AddressNotAssigned"})
	w.deleteService(late.Key)
	w.wantListens(t, again.Key, map[string]string{"red 10.9.0.2:1000": ""})

	// Without ranges of its own, the Network's Gateways have the controller's again.
	w.setNetwork(network("red", "front", "10.0.0.0/24"))
	w.settle()
	w.wantGateway(t, again.Key, served())
	w.wantListens(t, again.Key, map[string]string{"red 198.18.0.1:1000": ""})
}
