package main

// table is what we have of a table.
type table struct {
	name string
	// goName is the name of its type; that of libovsdb's generator if it is empty.
	goName string
	// doc goes on after "is a row of ...".
	doc     string
	columns []column
	// shared: its row is not ours alone, so that it is not among those that have owners.
	shared bool
}

// column is what we have of a column.
type column struct {
	name   string
	goName string
	doc    string
	// member: it is written element by element.
	member bool
}

var (
	name        = column{name: "name"}
	options     = column{name: "options"}
	externalIDs = column{name: "external_ids"}
	acls        = column{name: "acls", doc: "refer to ACL; written as Members.", member: true}
	groups      = column{
		name: "load_balancer_group", goName: "LoadBalancerGroups", doc: "refer to Load_Balancer_Group; written as Members.", member: true,
	}
	balancers = column{name: "load_balancer", goName: "LoadBalancers", doc: "refer to Load_Balancer; written as Members.", member: true}
)

// tables are in the order in which their rows are looked at: containers first.
var tables = []table{
	{
		name: "Load_Balancer_Group",
		doc:  "The table has no external_ids, so the name says whose it is: see GroupName.",
		columns: []column{
			name,
			balancers,
		},
	},
	{
		name: "Logical_Router",
		columns: []column{
			name,
			options,
			externalIDs,
			{name: "ports", doc: "refer to Logical_Router_Port; written as Members.", member: true},
			{name: "static_routes", doc: "refer to Logical_Router_Static_Route; written as Members.", member: true},
			{name: "policies", doc: "refer to Logical_Router_Policy; written as Members.", member: true},
			groups,
			balancers,
		},
	},
	{
		name: "Logical_Switch",
		columns: []column{
			name,
			{name: "other_config"},
			externalIDs,
			{name: "ports", doc: "refer to Logical_Switch_Port; written as Members.", member: true},
			groups,
			acls,
		},
	},
	{
		name: "Logical_Router_Port",
		columns: []column{
			name,
			{name: "mac"},
			{name: "networks", doc: "are the port's addresses, each with its prefix length."},
			{name: "peer", doc: "names the port of another router that this one leads to; none for a port that leads to a switch."},
			options,
			externalIDs,
		},
	},
	{
		name: "Logical_Switch_Port",
		columns: []column{
			name,
			{
				name: "type",
				doc:  `is empty for a pod's port, "router" for a port that leads to a router, "localport" for one that every chassis has for itself.`,
			},
			{name: "addresses", doc: `are each "MAC IP..." or a keyword.`},
			{name: "port_security", doc: "has the only source addresses that the port may use; none means any."},
			options,
			externalIDs,
		},
	},
	{
		name: "Logical_Router_Static_Route", goName: "StaticRoute",
		columns: []column{
			{name: "ip_prefix"},
			{name: "nexthop"},
			{name: "output_port", doc: "names the router's port that leads to the next hop; needed where that is a link-local address."},
			externalIDs,
		},
	},
	{
		name: "Logical_Router_Policy", goName: "RouterPolicy",
		columns: []column{
			{name: "priority", doc: "is from 0 to 32767, which is asked first."},
			{name: "match", doc: "is an expression of ovn-sb(5), Logical_Flow."},
			{name: "action", doc: "is allow, drop or reroute."},
			externalIDs,
		},
	},
	{
		name: "Load_Balancer",
		columns: []column{
			name,
			{
				name: "vips",
				doc:  `are each "IP:port" and the "IP:port,..." of its backends, [IP]:port for IPv6; or two addresses without ports. Written as Members.`, member: true,
			},
			{name: "protocol", doc: "is tcp, udp or sctp."},
			{name: "selection_fields", doc: "are those parts of a packet that decide which backend it goes to; none means all of its connection."},
			options,
			externalIDs,
		},
	},
	{
		name: "Chassis_Template_Var", goName: "ChassisVariables",
		doc: "Where a template stands in a load balancer, the node puts the value of its own variable.",
		columns: []column{
			{name: "chassis", doc: "names the node."},
			{name: "variables", doc: "are written as Members.", member: true},
			externalIDs,
		},
	},
	{
		name: "Port_Group",
		doc:  "OVN makes an address set NAME_ip4 and one NAME_ip6 of its ports' addresses.",
		columns: []column{
			name,
			externalIDs,
			{name: "ports", doc: "refer to Logical_Switch_Port; written as Members. A port that goes leaves by itself.", member: true},
			acls,
		},
	},
	{
		name: "Address_Set",
		doc:  "Matches name its addresses as $Name.",
		columns: []column{
			name,
			{name: "addresses", doc: "are of one IP family; written as Members.", member: true},
			externalIDs,
		},
	},
	{
		name: "Meter",
		columns: []column{
			name,
			{name: "unit", doc: "is pktps or kbps."},
			{name: "fair", doc: "means that each ACL that names the meter has its whole rate."},
			{name: "bands", doc: "refer to Meter_Band. A meter needs one from the start, so they are written as a whole."},
			externalIDs,
		},
	},
	{
		name: "Meter_Band",
		columns: []column{
			{name: "action", doc: "is drop: for what is beyond Rate, in the meter's unit."},
			{name: "rate"},
			externalIDs,
		},
	},
	{
		name: "ACL",
		columns: []column{
			{name: "name", doc: "is in what is logged, at most 63 characters."},
			{name: "tier", doc: "is from 0, which is asked first, to 3."},
			{name: "priority", doc: "is from 0 to 32767, which is asked first within its tier."},
			{name: "direction", doc: "is from-lport for what a port sends, to-lport for what it receives."},
			{name: "match", doc: "is an expression of ovn-sb(5), Logical_Flow."},
			{name: "action", doc: "is allow-related, drop, pass or reject."},
			{name: "log", doc: "means that each packet that begins a connection, or is dropped, is logged where it is judged."},
			{name: "meter", doc: "bounds how many of them are logged."},
			options,
			externalIDs,
		},
	},
	{
		name: "NB_Global", goName: "Global",
		columns: []column{
			externalIDs,
			{name: "options", doc: "has others' beside OptionInvalid."},
		},
		shared: true,
	},
}
