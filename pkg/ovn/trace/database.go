package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Database is what the northbound database has, with the ways from one row to the next. It is for one goroutine.
type Database struct {
	ports      map[string]*nb.LogicalSwitchPort
	portByID   map[string]*nb.LogicalSwitchPort
	switches   map[string]*nb.LogicalSwitch
	groups     []*nb.PortGroup
	groupNames map[string]*nb.PortGroup
	acls       map[string]*nb.ACL
	balancers  map[string]*nb.LoadBalancer
	variables  map[string]map[string]string
	shared     map[string]*nb.LoadBalancerGroup
	written    map[string]*nb.AddressSet
	// joints are what leads from each Network to those that are joined to it.
	joints map[string][]joint
	// faces are the pods' that their Networks lead to an own address.
	faces map[netip.Addr]place
	// sets are those that matches have named so far: many name the same.
	sets map[string][]value
	// matches are those that have been read so far, by their texts, and asked the ACLs that are asked about a port, in their order.
	matches map[string]matching
	asked   map[asking][]*nb.ACL
	// spend is told of work before it is done.
	spend func(int) error
}

// Bound sets a function that is called before work is done, with the amount of work. Judging an ACL is 1. Each field in its match
// is 1, plus 1 for each ValuesOfWork values that the field is compared with. An error of the function ends the judgement.
func (db *Database) Bound(spend func(work int) error) { db.spend = spend }

// ValuesOfWork is how many values are compared for the work of one field.
const ValuesOfWork = 16

// New takes the rows of a database; read lists those of a table.
func New(read func(nb.Table) []nb.Row) *Database {
	db := &Database{
		ports: map[string]*nb.LogicalSwitchPort{}, portByID: map[string]*nb.LogicalSwitchPort{}, switches: map[string]*nb.LogicalSwitch{},
		groupNames: map[string]*nb.PortGroup{}, acls: map[string]*nb.ACL{}, balancers: map[string]*nb.LoadBalancer{},
		variables: map[string]map[string]string{},
		shared:    map[string]*nb.LoadBalancerGroup{}, written: map[string]*nb.AddressSet{}, joints: map[string][]joint{},
		sets:  map[string][]value{},
		faces: map[netip.Addr]place{}, matches: map[string]matching{}, asked: map[asking][]*nb.ACL{}, spend: func(int) error { return nil },
	}
	for _, table := range []nb.Table{
		nb.TableLogicalSwitchPort, nb.TableLogicalSwitch, nb.TablePortGroup, nb.TableACL, nb.TableLoadBalancer, nb.TableLoadBalancerGroup,
		nb.TableAddressSet, nb.TableStaticRoute, nb.TableChassisVariables,
	} {
		for _, row := range read(table) {
			db.add(row)
		}
	}
	slices.SortFunc(db.groups, func(a, b *nb.PortGroup) int { return cmp.Compare(a.Name, b.Name) })
	return db
}

func (db *Database) add(row nb.Row) {
	switch row := row.(type) {
	case *nb.LogicalSwitchPort:
		db.ports[row.Name], db.portByID[row.UUID] = row, row
	case *nb.LogicalSwitch:
		for _, port := range row.Ports {
			db.switches[port] = row
		}
	case *nb.PortGroup:
		db.groups, db.groupNames[row.Name] = append(db.groups, row), row
	case *nb.ACL:
		db.acls[row.UUID] = row
	case *nb.LoadBalancer:
		db.balancers[row.UUID] = row
		db.addFaces(row)
	case *nb.ChassisVariables:
		db.variables[row.Chassis] = row.Variables
	case *nb.LoadBalancerGroup:
		db.shared[row.UUID] = row
	case *nb.AddressSet:
		db.written[row.Name] = row
	case *nb.StaticRoute:
		if row.OutputPort == nil {
			return
		}
		network, other, is := model.JoinedBy(*row.OutputPort)
		if to, err := netip.ParsePrefix(row.IPPrefix); is && err == nil {
			db.joints[network] = append(db.joints[network], joint{to, other})
		}
	}
}

// joint is a range of a Network that is joined to another one.
type joint struct {
	to    netip.Prefix
	other string
}

// Leads is the Network whose router a Network's leads an address to; empty when it leads it to none.
func (db *Database) Leads(network string, a netip.Addr) string {
	for _, j := range db.joints[network] {
		if j.to.Contains(a) {
			return j.other
		}
	}
	return ""
}

// Joined reports whether a Network's router leads to another's.
func (db *Database) Joined(network, other string) bool {
	return slices.ContainsFunc(db.joints[network], func(j joint) bool { return j.other == other })
}

// Port is a switch port by its name; nil when there is none.
func (db *Database) Port(name string) *nb.LogicalSwitchPort { return db.ports[name] }

// SwitchOf is the switch that holds a port; nil when none does.
func (db *Database) SwitchOf(port *nb.LogicalSwitchPort) *nb.LogicalSwitch {
	return db.switches[port.UUID]
}

// At finds the port of a Network's pod with an address; nil when there is none.
func (db *Database) At(network string, a netip.Addr) *nb.LogicalSwitchPort {
	for _, port := range db.ports {
		if port.ExternalIDs[nb.KeyNetwork] == network && strings.HasPrefix(port.ExternalIDs[nb.KeyOwner], "Pod/") &&
			slices.Contains(Addresses(port), a) {
			return port
		}
	}
	return nil
}

// Addresses are the IP addresses of a port.
func Addresses(port *nb.LogicalSwitchPort) []netip.Addr {
	var out []netip.Addr
	for _, line := range port.Addresses {
		for text := range strings.FieldsSeq(line) {
			// The first word of each is a MAC address, or a keyword.
			if a, err := netip.ParseAddr(text); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

func (db *Database) group(name string) *nb.PortGroup { return db.groupNames[name] }

// chassisOf is where a port is to be bound; empty when that is not known.
func (db *Database) chassisOf(port string) string {
	if p := db.ports[port]; p != nil {
		return p.Options["requested-chassis"]
	}
	return ""
}

// addresses are those of an address set: of one that is a row, or of those that OVN makes of a port group, one for each IP
// family. (ovn-nb(5), Address_Set and Port_Group.)
func (db *Database) addresses(set string) ([]value, error) {
	if row := db.written[set]; row != nil {
		return db.addressesOf(row)
	}
	name, v4 := strings.CutSuffix(set, "_ip4")
	if !v4 {
		name, _ = strings.CutSuffix(set, "_ip6")
	}
	g := db.groupNames[name]
	if g == nil || name == set {
		return nil, fmt.Errorf("there is no port group with the address set %s", set)
	}
	return db.set(set, func() []value {
		var out []value
		for _, port := range db.portsOf(g) {
			for _, a := range Addresses(port) {
				if a.Is4() == v4 {
					out = append(out, value{addresses: netip.PrefixFrom(a, a.BitLen())})
				}
			}
		}
		return out
	}), nil
}

// addressesOf are those of a row, single ones and prefixes.
func (db *Database) addressesOf(row *nb.AddressSet) ([]value, error) {
	var out []value
	for _, text := range row.Addresses {
		address, bits, _ := strings.Cut(text, "/")
		v, err := constant(address, bits)
		if err != nil || !v.addresses.IsValid() {
			return nil, fmt.Errorf("address set %s holds %q, which is not understood", row.Name, text)
		}
		out = append(out, v)
	}
	return db.set(row.Name, func() []value { return out }), nil
}

// set is what a set holds.
func (db *Database) set(name string, read func() []value) []value {
	known, has := db.sets[name]
	if !has {
		known = read()
		db.sets[name] = known
	}
	return known
}
