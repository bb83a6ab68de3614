package nb

import "slices"

// TableSpec is what the engine must know of a table beside its columns.
type TableSpec struct {
	Table Table
	// New returns an empty row.
	New func() Row
}

// Column is a column of a table.
type Column struct {
	Table Table
	Name  string
}

// Tables lists the tables whose rows have owners, containers first. NB_Global is not among them: its row is
// shared with everyone.
func Tables() []TableSpec {
	return []TableSpec{
		{Table: TableLoadBalancerGroup, New: func() Row { return &LoadBalancerGroup{} }},
		{Table: TableLogicalRouter, New: func() Row { return &LogicalRouter{} }},
		{Table: TableLogicalSwitch, New: func() Row { return &LogicalSwitch{} }},
		{Table: TableLogicalRouterPort, New: func() Row { return &LogicalRouterPort{} }},
		{Table: TableLogicalSwitchPort, New: func() Row { return &LogicalSwitchPort{} }},
		{Table: TableStaticRoute, New: func() Row { return &StaticRoute{} }},
		{Table: TableLoadBalancer, New: func() Row { return &LoadBalancer{} }},
		{Table: TablePortGroup, New: func() Row { return &PortGroup{} }},
		{Table: TableAddressSet, New: func() Row { return &AddressSet{} }},
		{Table: TableMeter, New: func() Row { return &Meter{} }},
		{Table: TableMeterBand, New: func() Row { return &MeterBand{} }},
		{Table: TableACL, New: func() Row { return &ACL{} }},
	}
}

// TargetTable is the table that a member column's elements refer to; empty for any other column, and for one whose elements are
// values.
func TargetTable(c Column) Table {
	switch c {
	case Column{TableLogicalRouter, ColumnPorts}:
		return TableLogicalRouterPort
	case Column{TableLogicalSwitch, ColumnPorts}, Column{TablePortGroup, ColumnPorts}:
		return TableLogicalSwitchPort
	case Column{TableLogicalRouter, ColumnStaticRoutes}:
		return TableStaticRoute
	case Column{TableLogicalRouter, ColumnLoadBalancerGroups}, Column{TableLogicalSwitch, ColumnLoadBalancerGroups}:
		return TableLoadBalancerGroup
	case Column{TableLoadBalancerGroup, ColumnLoadBalancers}, Column{TableLogicalRouter, ColumnLoadBalancers}:
		return TableLoadBalancer
	case Column{TableLogicalSwitch, ColumnACLs}, Column{TablePortGroup, ColumnACLs}:
		return TableACL
	}
	return ""
}

// MemberColumns names the member columns of a table.
func MemberColumns(t Table) []string {
	switch t {
	case TableLogicalRouter:
		return []string{ColumnPorts, ColumnStaticRoutes, ColumnLoadBalancerGroups, ColumnLoadBalancers}
	case TableLogicalSwitch:
		return []string{ColumnPorts, ColumnLoadBalancerGroups, ColumnACLs}
	case TableLoadBalancerGroup:
		return []string{ColumnLoadBalancers}
	case TableLoadBalancer:
		return []string{ColumnVips}
	case TableAddressSet:
		return []string{ColumnAddresses}
	case TablePortGroup:
		return []string{ColumnPorts, ColumnACLs}
	}
	return nil
}

// IsMember reports whether a column is written element by element.
func IsMember(c Column) bool { return slices.Contains(MemberColumns(c.Table), c.Name) }

// IsWeak reports whether a column's references keep no row alive: their rows live by their places in other columns, and
// when a row goes it leaves the column by itself. (RFC 7047, refType.)
func IsWeak(c Column) bool { return c == Column{TablePortGroup, ColumnPorts} }

// Judges reports whether rows of a table decide what passes: ACLs, and the port groups that they hang on.
func Judges(t Table) bool { return t == TableACL || t == TablePortGroup }

// IsRoot reports whether rows of a table live by themselves. Rows of the others live as long as a member
// column refers to them.
func IsRoot(t Table) bool {
	switch t {
	case TableLogicalRouter, TableLogicalSwitch, TableLoadBalancer, TableLoadBalancerGroup, TablePortGroup, TableAddressSet, TableMeter, TableGlobal:
		return true
	}
	return false
}
