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
	}
}

// TargetTable is the table that a member column's elements refer to; empty for any other column.
func TargetTable(c Column) Table {
	switch c {
	case Column{TableLogicalRouter, ColumnPorts}:
		return TableLogicalRouterPort
	case Column{TableLogicalSwitch, ColumnPorts}:
		return TableLogicalSwitchPort
	case Column{TableLogicalRouter, ColumnStaticRoutes}:
		return TableStaticRoute
	case Column{TableLogicalRouter, ColumnLoadBalancerGroups}, Column{TableLogicalSwitch, ColumnLoadBalancerGroups}:
		return TableLoadBalancerGroup
	case Column{TableLoadBalancerGroup, ColumnLoadBalancers}, Column{TableLogicalRouter, ColumnLoadBalancers}:
		return TableLoadBalancer
	}
	return ""
}

// MemberColumns names the member columns of a table.
func MemberColumns(t Table) []string {
	switch t {
	case TableLogicalRouter:
		return []string{ColumnPorts, ColumnStaticRoutes, ColumnLoadBalancerGroups, ColumnLoadBalancers}
	case TableLogicalSwitch:
		return []string{ColumnPorts, ColumnLoadBalancerGroups}
	case TableLoadBalancerGroup:
		return []string{ColumnLoadBalancers}
	case TableLoadBalancer:
		return []string{ColumnVips}
	}
	return nil
}

// IsMember reports whether a column is written element by element.
func IsMember(c Column) bool { return slices.Contains(MemberColumns(c.Table), c.Name) }

// IsRoot reports whether rows of a table live by themselves. Rows of the others live as long as a member
// column refers to them.
func IsRoot(t Table) bool {
	switch t {
	case TableLogicalRouter, TableLogicalSwitch, TableLoadBalancer, TableLoadBalancerGroup, TableGlobal:
		return true
	}
	return false
}
