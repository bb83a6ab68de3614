package connect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// SwitchPort is an interface of a bridge.
type SwitchPort struct {
	Bridge    string `json:"bridge"`
	Port      string `json:"port"`
	Interface string `json:"interface"`
	Type      string `json:"type,omitempty"`
	// OpenFlow is its number for OpenFlow; 0 when it has none.
	OpenFlow int64 `json:"openflow,omitempty"`
	// Iface is the logical port, by which OVN knows it (external_ids:iface-id), and Pod whose it is.
	Iface string `json:"iface,omitempty"`
	Pod   string `json:"pod,omitempty"`
	// PodUID is that pod's UID (external_ids:iface-id-ver).
	PodUID string `json:"podUID,omitempty"`
	Error  string `json:"error,omitempty"`
}

// keyPod is by which key of its external_ids an interface says whose it is.
const keyPod = "atoll.dev/pod"

// SwitchPorts are the interfaces of the bridges of a node's Open vSwitch, in order of their names.
func (t *Tunnel) SwitchPorts(ctx context.Context) ([]SwitchPort, error) {
	asker := ovsdb.Asker{Config: ovsdb.Config{Addresses: []string{t.Address()}}, Database: "Open_vSwitch"}
	rows, err := asker.Select(ctx,
		ovsdb.SelectRows("Bridge", []string{"name", "ports"}),
		ovsdb.SelectRows("Port", []string{"_uuid", "name", "interfaces"}),
		ovsdb.SelectRows("Interface", []string{"_uuid", "name", "type", "ofport", "external_ids", "error"}))
	if err != nil {
		return nil, err
	}
	return switchPorts(rows[0], rows[1], rows[2]), nil
}

// switchPorts puts rows of bridges, ports and interfaces together.
func switchPorts(bridges, ports, interfaces []libovsdb.Row) []SwitchPort {
	byID := func(rows []libovsdb.Row) map[string]libovsdb.Row {
		out := make(map[string]libovsdb.Row, len(rows))
		for _, r := range rows {
			out[ovsdb.Text(r, "_uuid")] = r
		}
		return out
	}
	portOf, interfaceOf, out := byID(ports), byID(interfaces), []SwitchPort{}
	for _, b := range bridges {
		for _, portID := range references(b["ports"]) {
			port := portOf[portID]
			for _, interfaceID := range references(port["interfaces"]) {
				i := interfaceOf[interfaceID]
				ids, _ := i["external_ids"].(libovsdb.OvsMap)
				text := func(key string) string {
					if v, has := ids.GoMap[key]; has {
						return fmt.Sprint(v)
					}
					return ""
				}
				out = append(out, SwitchPort{
					Bridge: ovsdb.Text(b, "name"), Port: ovsdb.Text(port, "name"), Interface: ovsdb.Text(i, "name"), Type: ovsdb.Text(i, "type"),
					OpenFlow: ovsdb.Number(i, "ofport"), Iface: text("iface-id"), Pod: text(keyPod), PodUID: text("iface-id-ver"), Error: ovsdb.Text(i,
						"error"),
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b SwitchPort) int {
		return cmp.Or(strings.Compare(a.Bridge, b.Bridge), strings.Compare(a.Port, b.Port), strings.Compare(a.Interface, b.Interface))
	})
	return out
}

// references are the rows that a column refers to.
func references(column any) (out []string) {
	switch v := column.(type) {
	case libovsdb.UUID:
		return []string{v.GoUUID}
	case libovsdb.OvsSet:
		for _, e := range v.GoSet {
			if id, ok := e.(libovsdb.UUID); ok {
				out = append(out, id.GoUUID)
			}
		}
	}
	return out
}
