package nb

// Global is the one row of NB_Global.
type Global struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalRouter is a row of Logical_Router.
type LogicalRouter struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Ports refer to Logical_Router_Port; written as Members.
	Ports []string `ovsdb:"ports"`
}

// LogicalRouterPort is a row of Logical_Router_Port.
type LogicalRouterPort struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	MAC  string `ovsdb:"mac"`
	// Networks are the port's addresses, each with its prefix length.
	Networks    []string          `ovsdb:"networks"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalSwitch is a row of Logical_Switch.
type LogicalSwitch struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Ports refer to Logical_Switch_Port; written as Members.
	Ports []string `ovsdb:"ports"`
}

// LogicalSwitchPort is a row of Logical_Switch_Port.
type LogicalSwitchPort struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// Type is empty for a pod's port, "router" for a port that leads to a router.
	Type string `ovsdb:"type"`
	// Addresses: each "MAC IP..." or a keyword.
	Addresses []string `ovsdb:"addresses"`
	// PortSecurity: the only source addresses that the port may use; none means any.
	PortSecurity []string          `ovsdb:"port_security"`
	Options      map[string]string `ovsdb:"options"`
	ExternalIDs  map[string]string `ovsdb:"external_ids"`
}

// Table implements Row.
func (*Global) Table() Table            { return TableGlobal }
func (*LogicalRouter) Table() Table     { return TableLogicalRouter }
func (*LogicalRouterPort) Table() Table { return TableLogicalRouterPort }
func (*LogicalSwitch) Table() Table     { return TableLogicalSwitch }
func (*LogicalSwitchPort) Table() Table { return TableLogicalSwitchPort }

// ID implements Row.
func (r *Global) ID() string            { return r.UUID }
func (r *LogicalRouter) ID() string     { return r.UUID }
func (r *LogicalRouterPort) ID() string { return r.UUID }
func (r *LogicalSwitch) ID() string     { return r.UUID }
func (r *LogicalSwitchPort) ID() string { return r.UUID }

// Owned implements Row.
func (r *Global) Owned() map[string]string            { return r.ExternalIDs }
func (r *LogicalRouter) Owned() map[string]string     { return r.ExternalIDs }
func (r *LogicalRouterPort) Owned() map[string]string { return r.ExternalIDs }
func (r *LogicalSwitch) Owned() map[string]string     { return r.ExternalIDs }
func (r *LogicalSwitchPort) Owned() map[string]string { return r.ExternalIDs }

// Members returns the elements of a column that is written as Members; nil for any other.
func Members(r Row, column string) []string {
	switch r := r.(type) {
	case *LogicalRouter:
		if column == ColumnPorts {
			return r.Ports
		}
	case *LogicalSwitch:
		if column == ColumnPorts {
			return r.Ports
		}
	}
	return nil
}
