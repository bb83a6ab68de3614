package chassis

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRestorable(t *testing.T) {
	got := restorable(`OFPST_FLOW reply (OF1.5) (xid=0x2):
 cookie=0x1, table=0, priority=100,igmp,in_port=1 actions=drop
 table=0, priority=1 actions=resubmit(,1)

`)
	want := []string{"cookie=0x1, table=0, priority=100,ip,nw_proto=2,in_port=1 actions=drop", "table=0, priority=1 actions=resubmit(,1)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMetersOf(t *testing.T) {
	got := metersOf(
		restorable("OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):\nmeter=1 kbps bands=\ntype=drop rate=10\n\nmeter=2 pktps burst stats " +
			"bands=\ntype=drop rate=20 burst_size=5\n"))
	want := []string{"meter=1 kbps bands= type=drop rate=10", "meter=2 pktps burst stats bands= type=drop rate=20 burst_size=5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTunnelMap(t *testing.T) {
	got := tunnelMap(`NXT_TLV_TABLE_REPLY (xid=0x2):
 max option space=256 max fields=64
 allocated option space=4

 mapping table:
  class  type  length  match field
 ------  ----  ------  --------------
  0x102  0x80       4  tun_metadata0
`)
	if want := "{class=0x102,type=0x80,len=4}->tun_metadata0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := tunnelMap("NXT_TLV_TABLE_REPLY (xid=0x2):\n"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestComesBy(t *testing.T) {
	targets := []string{"punix:/run/openvswitch/br-int.controller", "tcp:192.0.2.9:6653"}
	for remote, want := range map[string]bool{
		"unix:br-int.controller":                      true,
		"unix:/run/openvswitch/br-int.controller":     true,
		"unix:/var/run/openvswitch/br-int.controller": false,
		"unix:br-int.mgmt":                            false,
		"":                                            true,
		"tcp:192.0.2.9:6653":                          false,
	} {
		if got := comesBy(remote, "/run/openvswitch", targets); got != want {
			t.Errorf("%q: %t", remote, got)
		}
	}
	// Where the agent bounds nothing, its socket is not there; in another directory ovs-vswitchd does not open it.
	for _, targets := range [][]string{nil, {"punix:/somewhere/br-int.controller"}} {
		if comesBy("", "/run/openvswitch", targets) {
			t.Errorf("by the bridge's own socket, and the flows are restored: %q", targets)
		}
	}
}

func TestStoredAddresses(t *testing.T) {
	got, err := storedAddresses(`"192.0.2.1/24 fd00::1/64"`)
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("fd00::1/64")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if got, err := storedAddresses(""); len(got) > 0 || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	if _, err := storedAddresses("x"); err == nil {
		t.Error("of no address: no error")
	}
}
