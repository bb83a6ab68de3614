package vswitch

import (
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// Tables of the database Open_vSwitch, ovs-vswitchd.conf.db(5).
const (
	tableRoot       = "Open_vSwitch"
	tableBridge     = "Bridge"
	tablePort       = "Port"
	tableInterface  = "Interface"
	tableController = "Controller"
)

type rootRow struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	CurCfg      int               `ovsdb:"cur_cfg"`
}

type bridgeRow struct {
	UUID         string `ovsdb:"_uuid"`
	Name         string `ovsdb:"name"`
	DatapathType string `ovsdb:"datapath_type"`
	// Controllers are those that the bridge expects, besides its own socket.
	Controllers []string `ovsdb:"controller"`
}

type controllerRow struct {
	UUID   string  `ovsdb:"_uuid"`
	Target string  `ovsdb:"target"`
	Rate   *int    `ovsdb:"controller_rate_limit"`
	Burst  *int    `ovsdb:"controller_burst_limit"`
	Mode   *string `ovsdb:"connection_mode"`
}

type portRow struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type interfaceRow struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Type and Options tell tunnels from other ports.
	Type    string            `ovsdb:"type"`
	Options map[string]string `ovsdb:"options"`
	// Ofport is -1 when ovs-vswitchd could not open the interface; then Error says why.
	Ofport *int    `ovsdb:"ofport"`
	Error  *string `ovsdb:"error"`
}

// Keys of an Interface's external_ids that OVN reads and writes, ovn-controller(8).
const (
	keyIfaceID      = "iface-id"
	keyIfaceIDVer   = "iface-id-ver"
	keyAttachedMAC  = "attached-mac"
	keyOVNInstalled = "ovn-installed"
)

// Keys of ours. keySandbox, or keyPorthole, is the proof of ownership: every row of ours has one of them.
const (
	keyPod       = "atoll.dev/pod"
	keyPodUID    = "atoll.dev/pod-uid"
	keySandbox   = "atoll.dev/sandbox"
	keyPorthole  = "atoll.dev/porthole"
	keyNetns     = "atoll.dev/netns"
	keyInterface = "atoll.dev/interface"
	keyAddresses = "ip"
)

// Keys of the root row's external_ids, ovn-controller(8): the tunnel's address and kind, and the datapath of the bridge.
const (
	keyEncapIP  = "ovn-encap-ip"
	keyEncap    = "ovn-encap-type"
	keyRemote   = "ovn-remote"
	keyDatapath = "ovn-bridge-datapath-type"
)

// keyChassis in the external_ids of a tunnel's port names the chassis at its other end, as ovn-controller writes it: NAME@ADDRESS.
const keyChassis = "ovn-chassis-id"

// userspace is the datapath that needs no kernel module.
const userspace = "netdev"

// databaseModel indexes interfaces by iface-id; by name they are indexed already.
func databaseModel() (model.ClientDBModel, error) {
	db, err := model.NewClientDBModel("Open_vSwitch", map[string]model.Model{
		tableRoot:       &rootRow{},
		tableBridge:     &bridgeRow{},
		tablePort:       &portRow{},
		tableInterface:  &interfaceRow{},
		tableController: &controllerRow{},
	})
	if err != nil {
		return db, fmt.Errorf("describe the Open_vSwitch database: %w", err)
	}
	db.SetIndexes(map[string][]model.ClientIndex{
		tableInterface: {{Columns: []model.ColumnKey{{Column: "external_ids", Key: keyIfaceID}}}},
	})
	return db, nil
}
