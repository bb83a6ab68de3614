package vswitch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/process/wake"
)

func TestPortSurvivesItsRow(t *testing.T) {
	t.Parallel()
	port := Port{
		Name: "atoll-a", IfaceID: "red/one", IfaceIDVer: "u1", Pod: "red/one", Sandbox: "c1", Interface: "eth0",
		Netns: "/run/netns/a", MAC: "0a:00:00:00:00:05", Addresses: "10.0.0.5",
	}
	door := Port{Name: "atoll-b", IfaceID: "red:porthole", Porthole: "n1"}
	for _, port := range []Port{port, door} {
		got, ours := portOf(interfaceRow{Name: port.Name, ExternalIDs: port.externalIDs()})
		if diff := cmp.Diff(port, got); diff != "" || !ours {
			t.Errorf("ours: %t %s", ours, diff)
		}
	}
}

func TestPortState(t *testing.T) {
	t.Parallel()
	refused, opened := -1, 7
	text := "could not open network device"
	ids := func(more ...string) map[string]string {
		m := map[string]string{keySandbox: "c1"}
		for _, key := range more {
			m[key] = "true"
		}
		return m
	}
	for _, test := range []struct {
		name      string
		row       interfaceRow
		ours      bool
		installed bool
		problem   bool
	}{
		{"somebody else's", interfaceRow{ExternalIDs: map[string]string{keyIfaceID: "red/one"}}, false, false, false},
		{"new", interfaceRow{ExternalIDs: ids()}, true, false, false},
		{"opened", interfaceRow{ExternalIDs: ids(), Ofport: &opened}, true, false, false},
		{"installed", interfaceRow{ExternalIDs: ids(keyOVNInstalled), Ofport: &opened}, true, true, false},
		{"refused", interfaceRow{ExternalIDs: ids(), Ofport: &refused}, true, false, true},
		{"refused with a reason", interfaceRow{ExternalIDs: ids(), Ofport: &refused, Error: &text}, true, false, true},
	} {
		port, ours := portOf(test.row)
		if ours != test.ours || port.Installed != test.installed || (port.Problem != "") != test.problem {
			t.Errorf("%s: %+v, ours %t", test.name, port, ours)
		}
	}
}

func TestWatchIsWokenByItsInterfaceOnly(t *testing.T) {
	t.Parallel()
	c := &Client{changed: wake.NewSignal(), bridge: "br-int"}
	woken, stop := c.Watch("a")
	see := events{c}
	see.OnAdd(tableInterface, &interfaceRow{Name: "b"})
	select {
	case <-woken:
		t.Error("woken by another interface")
	default:
	}
	// More changes than are read do not block.
	for range 3 {
		see.OnUpdate(tableInterface, nil, &interfaceRow{Name: "a"})
		see.OnDelete(tableInterface, &interfaceRow{Name: "a"})
	}
	<-woken
	stop()
	if n := c.waiting.Len(); n > 0 {
		t.Errorf("%d interfaces are still watched", n)
	}
	see.OnAdd(tableBridge, &bridgeRow{Name: "br-other"})
	if len(c.changed) > 0 {
		t.Error("another bridge counts as a change")
	}
	see.OnAdd(tableBridge, &bridgeRow{Name: "br-int"})
	see.OnAdd(tableRoot, &rootRow{})
	if len(c.changed) != 1 {
		t.Error("the bridge does not count as a change")
	}
}
