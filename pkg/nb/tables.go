package nb

// Global is the one row of NB_Global.
type Global struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Options has others' beside OptionInvalid.
	Options map[string]string `ovsdb:"options"`
}

// LogicalRouter is a row of Logical_Router.
type LogicalRouter struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Ports refer to Logical_Router_Port; written as Members, as are the next three.
	Ports []string `ovsdb:"ports"`
	// StaticRoutes refer to Logical_Router_Static_Route.
	StaticRoutes []string `ovsdb:"static_routes"`
	// LoadBalancerGroups refer to Load_Balancer_Group.
	LoadBalancerGroups []string `ovsdb:"load_balancer_group"`
	// LoadBalancers refer to Load_Balancer.
	LoadBalancers []string `ovsdb:"load_balancer"`
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
	// LoadBalancerGroups refer to Load_Balancer_Group; written as Members.
	LoadBalancerGroups []string `ovsdb:"load_balancer_group"`
	// ACLs refer to ACL; written as Members.
	ACLs []string `ovsdb:"acls"`
}

// LogicalSwitchPort is a row of Logical_Switch_Port.
type LogicalSwitchPort struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// Type is empty for a pod's port, "router" for a port that leads to a router, "localport" for one that every
	// chassis has for itself.
	Type string `ovsdb:"type"`
	// Addresses: each "MAC IP..." or a keyword.
	Addresses []string `ovsdb:"addresses"`
	// PortSecurity: the only source addresses that the port may use; none means any.
	PortSecurity []string          `ovsdb:"port_security"`
	Options      map[string]string `ovsdb:"options"`
	ExternalIDs  map[string]string `ovsdb:"external_ids"`
}

// StaticRoute is a row of Logical_Router_Static_Route.
type StaticRoute struct {
	UUID     string `ovsdb:"_uuid"`
	IPPrefix string `ovsdb:"ip_prefix"`
	Nexthop  string `ovsdb:"nexthop"`
	// OutputPort names the router's port that leads to the next hop; needed where that is a link-local address.
	OutputPort  *string           `ovsdb:"output_port"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LoadBalancer is a row of Load_Balancer.
type LoadBalancer struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// Vips: each "IP:port" and the "IP:port,..." of its backends, [IP]:port for IPv6; or two addresses without ports.
	// Written as Members.
	Vips map[string]string `ovsdb:"vips"`
	// Protocol is tcp, udp or sctp.
	Protocol *string `ovsdb:"protocol"`
	// SelectionFields are those parts of a packet that decide which backend it goes to; none means all of its connection.
	SelectionFields []string          `ovsdb:"selection_fields"`
	Options         map[string]string `ovsdb:"options"`
	ExternalIDs     map[string]string `ovsdb:"external_ids"`
}

// LoadBalancerGroup is a row of Load_Balancer_Group. The table has no external_ids, so the name says whose it is:
// see GroupName.
type LoadBalancerGroup struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// LoadBalancers refer to Load_Balancer; written as Members.
	LoadBalancers []string `ovsdb:"load_balancer"`
}

// PortGroup is a row of Port_Group. OVN makes an address set NAME_ip4 and one NAME_ip6 of its ports' addresses.
type PortGroup struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	// Ports refer to Logical_Switch_Port; written as Members. A port that goes leaves by itself.
	Ports []string `ovsdb:"ports"`
	// ACLs refer to ACL; written as Members.
	ACLs []string `ovsdb:"acls"`
}

// ACL is a row of ACL.
type ACL struct {
	UUID string `ovsdb:"_uuid"`
	// Name is in what is logged, at most 63 characters.
	Name *string `ovsdb:"name"`
	// Tier is from 0, which is asked first, to 3. Priority is from 0 to 32767, which is asked first within its tier.
	Tier     int `ovsdb:"tier"`
	Priority int `ovsdb:"priority"`
	// Direction is from-lport for what a port sends, to-lport for what it receives.
	Direction string `ovsdb:"direction"`
	// Match is an expression of ovn-sb(5), Logical_Flow.
	Match string `ovsdb:"match"`
	// Action is allow-related, drop or pass.
	Action string `ovsdb:"action"`
	// Log: each packet that begins a connection, or is dropped, is logged where it is judged; Meter bounds how many.
	Log         bool              `ovsdb:"log"`
	Meter       *string           `ovsdb:"meter"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// AddressSet is a row of Address_Set: addresses that matches name as $Name.
type AddressSet struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// Addresses of one IP family; written as Members.
	Addresses   []string          `ovsdb:"addresses"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// Meter is a row of Meter.
type Meter struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
	// Unit is pktps or kbps.
	Unit string `ovsdb:"unit"`
	// Fair: each ACL that names the meter has its whole rate.
	Fair *bool `ovsdb:"fair"`
	// Bands refer to Meter_Band. A meter needs one from the start, so they are written as a whole.
	Bands       []string          `ovsdb:"bands"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// MeterBand is a row of Meter_Band.
type MeterBand struct {
	UUID string `ovsdb:"_uuid"`
	// Action is drop: for what is beyond Rate, in the meter's unit.
	Action      string            `ovsdb:"action"`
	Rate        int               `ovsdb:"rate"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// Table implements Row.
func (*Global) Table() Table            { return TableGlobal }
func (*LogicalRouter) Table() Table     { return TableLogicalRouter }
func (*LogicalRouterPort) Table() Table { return TableLogicalRouterPort }
func (*LogicalSwitch) Table() Table     { return TableLogicalSwitch }
func (*LogicalSwitchPort) Table() Table { return TableLogicalSwitchPort }
func (*StaticRoute) Table() Table       { return TableStaticRoute }
func (*LoadBalancer) Table() Table      { return TableLoadBalancer }
func (*LoadBalancerGroup) Table() Table { return TableLoadBalancerGroup }
func (*PortGroup) Table() Table         { return TablePortGroup }
func (*ACL) Table() Table               { return TableACL }
func (*AddressSet) Table() Table        { return TableAddressSet }
func (*Meter) Table() Table             { return TableMeter }
func (*MeterBand) Table() Table         { return TableMeterBand }

// ID implements Row.
func (r *Global) ID() string            { return r.UUID }
func (r *LogicalRouter) ID() string     { return r.UUID }
func (r *LogicalRouterPort) ID() string { return r.UUID }
func (r *LogicalSwitch) ID() string     { return r.UUID }
func (r *LogicalSwitchPort) ID() string { return r.UUID }
func (r *StaticRoute) ID() string       { return r.UUID }
func (r *LoadBalancer) ID() string      { return r.UUID }
func (r *LoadBalancerGroup) ID() string { return r.UUID }
func (r *PortGroup) ID() string         { return r.UUID }
func (r *ACL) ID() string               { return r.UUID }
func (r *AddressSet) ID() string        { return r.UUID }
func (r *Meter) ID() string             { return r.UUID }
func (r *MeterBand) ID() string         { return r.UUID }

// Owned implements Row.
func (r *Global) Owned() map[string]string            { return r.ExternalIDs }
func (r *LogicalRouter) Owned() map[string]string     { return r.ExternalIDs }
func (r *LogicalRouterPort) Owned() map[string]string { return r.ExternalIDs }
func (r *LogicalSwitch) Owned() map[string]string     { return r.ExternalIDs }
func (r *LogicalSwitchPort) Owned() map[string]string { return r.ExternalIDs }
func (r *StaticRoute) Owned() map[string]string       { return r.ExternalIDs }
func (r *LoadBalancer) Owned() map[string]string      { return r.ExternalIDs }
func (r *PortGroup) Owned() map[string]string         { return r.ExternalIDs }
func (r *ACL) Owned() map[string]string               { return r.ExternalIDs }
func (r *AddressSet) Owned() map[string]string        { return r.ExternalIDs }
func (r *Meter) Owned() map[string]string             { return r.ExternalIDs }
func (r *MeterBand) Owned() map[string]string         { return r.ExternalIDs }

// Members returns the elements of a column that is written as Members; nil for any other.
func Members(r Row, column string) []string {
	switch r := r.(type) {
	case *LogicalRouter:
		switch column {
		case ColumnPorts:
			return r.Ports
		case ColumnStaticRoutes:
			return r.StaticRoutes
		case ColumnLoadBalancerGroups:
			return r.LoadBalancerGroups
		case ColumnLoadBalancers:
			return r.LoadBalancers
		}
	case *LogicalSwitch:
		switch column {
		case ColumnPorts:
			return r.Ports
		case ColumnLoadBalancerGroups:
			return r.LoadBalancerGroups
		case ColumnACLs:
			return r.ACLs
		}
	case *LoadBalancerGroup:
		if column == ColumnLoadBalancers {
			return r.LoadBalancers
		}
	case *PortGroup:
		switch column {
		case ColumnPorts:
			return r.Ports
		case ColumnACLs:
			return r.ACLs
		}
	case *AddressSet:
		if column == ColumnAddresses {
			return r.Addresses
		}
	case *LoadBalancer:
		pairs := Pairs(r, column)
		out := make([]string, 0, len(pairs))
		for key, value := range pairs {
			out = append(out, Pair(key, value))
		}
		return out
	}
	return nil
}

// Pairs returns a column whose elements are pairs, as the map that it is; nil for any other.
func Pairs(r Row, column string) map[string]string {
	if lb, ok := r.(*LoadBalancer); ok && column == ColumnVips {
		return lb.Vips
	}
	return nil
}
