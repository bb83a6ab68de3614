package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// groupOfTwo is a database with the group g of the ports a and b, of which a is on node n1.
func groupOfTwo() *Database {
	rows := map[nb.Table][]nb.Row{
		nb.TableLogicalSwitchPort: {
			&nb.LogicalSwitchPort{
				UUID: "1", Name: "a", Addresses: []string{"0a:00:00:00:00:01 10.0.0.1 fd00::1"}, Options: map[string]string{"requested-chassis": "n1"},
			},
			&nb.LogicalSwitchPort{UUID: "2", Name: "b", Addresses: []string{"unknown"}},
		},
		nb.TablePortGroup: {&nb.PortGroup{UUID: "3", Name: "g", Ports: []string{"1", "2", "gone"}}},
	}
	return New(func(t nb.Table) []nb.Row { return rows[t] })
}

func TestMatches(t *testing.T) {
	v4 := Packet{
		From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), Protocol: model.TCP, Port: 8080, outport: "a", chassis: "n1",
	}
	for _, test := range []struct {
		match string
		want  bool
	}{
		{"1", true},
		{"0", false},
		{"ip && ip4 && tcp", true},
		{"ip6 || udp || tcp", true},
		{"(ip4 && udp) || !udp", true},
		{"!(ip4 && udp)", true},
		{"!(ip4 || udp)", false},
		{"!!tcp", true},
		{`inport == "a"`, true},
		{`inport != {"b", "c"}`, true},
		{"inport == @g && outport != @g", true},
		{"ip4.src == 10.0.0.0/24", true},
		{"ip4.src == {192.0.2.1, 10.0.0.0/31}", true},
		{"ip4.dst == 10.0.0.1", false},
		{"ip4.src == $g_ip4", true},
		{"ip4.src != $g_ip4", false},
		// What a packet does not have is neither this nor something else.
		{"ip6.src == $g_ip6", false},
		{"ip6.src != $g_ip6", false},
		{"!(ip6.src == $g_ip6)", false},
		{"udp.dst != 80", false},
		{"icmp4 || icmp6 || icmp", false},
		{"icmp4.type == 8 || icmp6.type == 128 || ip.is_frag", false},
		{"!ip.is_frag", true},
		{"tcp.flags == 0x4/0x7", false},
		{"tcp.flags == 2", true},
		{"tcp.dst == {80, 0x1f90/0xfff0}", true},
		{"tcp.dst == 0x1f80/0xfff0", false},
		{"tcp.dst >= 8080 && tcp.dst <= 8080 && tcp.dst < 8081 && tcp.dst > 8079", true},
		{`is_chassis_resident("a")`, true},
		{`!is_chassis_resident("b")`, true},
		{`is_chassis_resident("nobody")`, false},
		{"ip4 /* && udp */ // || 0", true},
	} {
		m, err := groupOfTwo().parse(test.match)
		if err != nil {
			t.Errorf("%s: %v", test.match, err)
			continue
		}
		if got, err := m.holds(v4, false); err != nil || got != test.want {
			t.Errorf("%s: got %t, %v", test.match, got, err)
		}
	}
}

func TestMatchesThatAreNotUnderstood(t *testing.T) {
	for match, want := range map[string]string{
		"":                          "not understood",
		"ip4 &&":                    "not understood",
		"ip4 ip6":                   "not expected",
		"(ip4":                      `where ")" is expected`,
		"eth.type == 0x800":         "the field eth.type",
		"tcp.src == 80":             "the field tcp.src",
		"ct.rpl":                    "the field ct.rpl",
		"ip4.src":                   "after the field",
		"ip4.src == $none_ip4":      "no port group",
		"ip4.src == $g":             "no port group",
		"inport == @none":           "no port group none",
		`inport == "a`:              "a string",
		"ip4.src == 10.0.0.1/255.0": "mask",
		"tcp.dst == http":           "no number",
		"ip4 /* it does not end":    "does not end",
		"is_chassis_resident(a)":    "is_chassis_resident",
		"ip4.src == 80":             "compared with what is none",
		"tcp.dst > {1, 2}":          "something else than one number",
		"ip4.src < 10.0.0.1":        "not understood here",
		"ip4 ^ ip6":                 "not understood",
	} {
		m, err := groupOfTwo().parse(match)
		if err == nil {
			_, err = m.holds(Packet{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), Protocol: model.TCP, Port: 1}, false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", match, err, want)
		}
	}
}

// What a load balancer leads back to its sender is judged as it is dialled and as it is received, and not in between.
func TestWhatComesBackToItsSender(t *testing.T) {
	rows := map[nb.Table][]nb.Row{
		nb.TableLogicalSwitch:     {&nb.LogicalSwitch{UUID: "s", Ports: []string{"1"}}},
		nb.TableLogicalSwitchPort: {&nb.LogicalSwitchPort{UUID: "1", Name: "a"}},
		nb.TablePortGroup:         {&nb.PortGroup{UUID: "g", Name: "g", Ports: []string{"1"}, ACLs: []string{"after", "itself", "drop"}}},
		nb.TableACL: {
			&nb.ACL{UUID: "after", Direction: fromPort, Match: "ip", Action: "drop", Options: map[string]string{afterBalancing: "true"}},
			&nb.ACL{UUID: "itself", Direction: toPort, Match: "outport == @g && flags.loopback && ip", Action: "allow-related", Priority: 2},
			&nb.ACL{UUID: "drop", Direction: toPort, Match: "outport == @g && ip", Action: "drop", Priority: 1},
		},
	}
	db := New(func(t nb.Table) []nb.Row { return rows[t] })
	p := Packet{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.1"), Protocol: model.TCP, Port: 80}
	for _, back := range []bool{true, false} {
		p.Loopback = back
		sent, err := db.Send(db.Port("a"), p, p)
		if err != nil || sent.Allowed != back {
			t.Errorf("led back: %t; sending: %+v, %v", back, sent, err)
		}
		if got, err := db.Receive(db.Port("a"), p); err != nil || got.Allowed != back {
			t.Errorf("led back: %t; receiving: %+v, %v", back, got, err)
		}
	}
}

// TestASwitchHasACLsOfItsOwn: they judge all its ports, and a question for an echo is one.
func TestASwitchHasACLsOfItsOwn(t *testing.T) {
	rows := map[nb.Table][]nb.Row{
		nb.TableLogicalSwitch:     {&nb.LogicalSwitch{UUID: "s", Ports: []string{"1"}, ACLs: []string{"guard"}}},
		nb.TableLogicalSwitchPort: {&nb.LogicalSwitchPort{UUID: "1", Name: "a"}},
		nb.TableACL: {
			&nb.ACL{
				UUID: "guard", Direction: fromPort, Match: "(icmp4.type == {5, 9}) || (ip4 && udp.dst == 68) || (ip6.src == fe80::/10 && ip.is_frag)",
				Action: "drop",
			},
		},
	}
	db := New(func(t nb.Table) []nb.Row { return rows[t] })
	for _, test := range []struct {
		protocol model.Protocol
		port     uint16
		want     bool
	}{{model.UDP, 68, false}, {model.UDP, 67, true}, {model.TCP, 68, true}, {ICMP, 0, true}} {
		p := Packet{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), Protocol: test.protocol, Port: test.port}
		if got, err := db.Send(db.Port("a"), p, p); err != nil || got.Allowed != test.want {
			t.Errorf("%s %d: %+v, %v", test.protocol, test.port, got, err)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		`outport == @g && ip4.src == {$g_ip4, 10.0.0.0/8} && tcp.dst == 0x50/0xfffe /* atoll */`, `!(ip6 || is_chassis_resident("a"))`,
		"tcp.dst <= 5 // end",
	} {
		f.Add(seed)
	}
	p := Packet{From: netip.MustParseAddr("fd00::1"), To: netip.MustParseAddr("fd00::2"), Protocol: model.UDP, Port: 53, out: "a"}
	f.Fuzz(func(t *testing.T, match string) {
		m, err := groupOfTwo().parse(match)
		if err != nil {
			return
		}
		yes, err := m.holds(p, false)
		again, err2 := m.holds(p, false)
		if yes != again || (err == nil) != (err2 == nil) {
			t.Errorf("%q is %t (%v) and %t (%v)", match, yes, err, again, err2)
		}
	})
}
