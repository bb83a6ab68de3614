package vswitch

import (
	"fmt"
	"slices"
	"testing"
)

// TestWhoseTunnelsAre: as ovn-controller writes tunnels, NAME@ADDRESS, or NAME@ADDRESS%LOCAL; other ports are no tunnels.
func TestWhoseTunnelsAre(t *testing.T) {
	t.Parallel()
	tunnel := func(name, kind, remote, id string) (interfaceRow, portRow) {
		return interfaceRow{Name: name, Type: kind, Options: map[string]string{"remote_ip": remote}}, portRow{
			Name: name, ExternalIDs: map[string]string{"ovn-chassis-id": id},
		}
	}
	var rows []interfaceRow
	var ports []portRow
	for _, of := range [][4]string{
		{"ovn-n2-0", "geneve", "192.0.2.2", "n2@192.0.2.2"},
		{"ovn-n3-0", "geneve", "fd00::3", "n3@fd00::3%fd00::1"},
		{"ovn-thief-0", "vxlan", "192.0.2.2", "thief@192.0.2.2"},
		{"ovn-n4-0", "vxlan", "192.0.2.4", "n4@192.0.2.4"},
		{"ovn-n5-0", "geneve", "flow", "n5@192.0.2.5"},
		{"foreign", "geneve", "192.0.2.9", ""},
		{"eth0", "", "192.0.2.8", "n8@192.0.2.8"},
	} {
		row, port := tunnel(of[0], of[1], of[2], of[3])
		rows, ports = append(rows, row), append(ports, port)
	}
	want := "map[192.0.2.2:n2 192.0.2.4:n4 fd00::3:n3]"
	if got := fmt.Sprint(chassisOf(rows, ports)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	slices.Reverse(rows)
	if got := fmt.Sprint(chassisOf(rows, ports)); got != want {
		t.Errorf("in another order: %s, want %s", got, want)
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"tcp:10.0.0.1:6642":                          "[10.0.0.1:6642]",
		"ssl:10.0.0.2:6642, ssl:10.0.0.1:6642":       "[10.0.0.1:6642 10.0.0.2:6642]",
		"ssl:[fd00::1]:6642":                         "[[fd00::1]:6642]",
		"tcp:10.0.0.1":                               "[10.0.0.1:6640]",
		"tcp:[::ffff:10.0.0.1]:6642":                 "[10.0.0.1:6642]",
		"unix:/var/run/ovn/ovnsb_db.sock":            "[]",
		"ssl:ovn.example.com:6642,tcp:10.0.0.1:6642": "[10.0.0.1:6642]",
		"": "[]",
		"tcp:10.0.0.1:6642,tcp:10.0.0.1:6642,tcp:1.2.3:x:y": "[10.0.0.1:6642]",
	} {
		if got := fmt.Sprint(Servers(list)); got != want {
			t.Errorf("%q names %s, want %s", list, got, want)
		}
	}
}
