package decide_test

import (
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestNobodyAsksForTheNumberOfAnothersPort: by an address that a pod asks for. It gets it when the other one has gone. The
// controls are the address beside it, and one of IPv6 where that of IPv4 decides.
func TestNobodyAsksForTheNumberOfAnothersPort(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/16"))
	six := network("six", "a", "fd00:6::/64")
	w.setNetwork(six)
	both := network("both", "a", "10.0.0.0/16")
	both.Subnets[0].CIDRs = append(both.Subnets[0].CIDRs, netip.MustParsePrefix("fd00:7::/64"))
	w.setNetwork(both)
	first := asking("team", "first", "red", model.NICRequest{IP: at("10.0.0.9")})
	w.wantAddress(t, first, "10.0.0.9")
	wish := asking("team", "wish", "red", model.NICRequest{IP: at("10.0.128.8")})
	w.wantProblem(t, wish, model.ReasonAddressInUse, "a multiple of 32767 apart: ask for another")
	w.wantProblem(t, asking("team", "router", "red", model.NICRequest{IP: at("10.0.128.0")}), model.ReasonAddressInUse,
		"the port number of another")
	w.wantAddress(t, asking("team", "beside", "red", model.NICRequest{IP: at("10.0.128.9")}), "10.0.128.9")
	w.deletePod(first.Key)
	w.settle()
	if a := w.attachment(wish.Key); a == nil || a.Addresses[0].Addr() != at("10.0.128.8") {
		t.Errorf("when the other has gone it has %+v", a)
	}
	w.wantAddress(t, asking("team", "six", "six", model.NICRequest{IP: at("fd00:6::9")}), "fd00:6::9")
	w.wantProblem(t, asking("team", "sixth", "six", model.NICRequest{IP: at("fd00:6::8008")}), model.ReasonAddressInUse,
		"the port number of another")
	w.setPod(asking("team", "both", "both", model.NICRequest{IP: at("fd00:7::9")}))
	other := asking("team", "other", "both", model.NICRequest{IP: at("fd00:7::8008")})
	w.setPod(other)
	w.settle()
	if w.attachment(other.Key) == nil {
		t.Errorf("where IPv4 decides: %+v", w.eventsOf("team/other"))
	}
}
