package nb

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// The rows copy and compare themselves: without these methods libovsdb takes each row through JSON and
// reflection, which was a fifth of the controller's processor time.

// CloneModel implements libovsdb's model.CloneableModel.
func (r *Global) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *Global) CloneModelInto(to model.Model) { r.copyTo(to.(*Global)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *Global) EqualsModel(other model.Model) bool {
	o, ok := other.(*Global)
	return ok && r.UUID == o.UUID && maps.Equal(r.ExternalIDs, o.ExternalIDs) && maps.Equal(r.Options, o.Options)
}

func (r *Global) copyTo(to *Global) {
	*to = *r
	to.ExternalIDs, to.Options = maps.Clone(r.ExternalIDs), maps.Clone(r.Options)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LogicalRouter) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LogicalRouter) CloneModelInto(to model.Model) { r.copyTo(to.(*LogicalRouter)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LogicalRouter) EqualsModel(other model.Model) bool {
	o, ok := other.(*LogicalRouter)
	return ok && r.UUID == o.UUID && r.Name == o.Name && maps.Equal(r.Options, o.Options) &&
		maps.Equal(r.ExternalIDs, o.ExternalIDs) && slices.Equal(r.Ports, o.Ports) &&
		slices.Equal(r.StaticRoutes, o.StaticRoutes) && slices.Equal(r.LoadBalancerGroups, o.LoadBalancerGroups) &&
		slices.Equal(r.LoadBalancers, o.LoadBalancers)
}

func (r *LogicalRouter) copyTo(to *LogicalRouter) {
	*to = *r
	to.Options, to.ExternalIDs, to.Ports = maps.Clone(r.Options), maps.Clone(r.ExternalIDs), slices.Clone(r.Ports)
	to.StaticRoutes, to.LoadBalancerGroups = slices.Clone(r.StaticRoutes), slices.Clone(r.LoadBalancerGroups)
	to.LoadBalancers = slices.Clone(r.LoadBalancers)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LogicalRouterPort) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LogicalRouterPort) CloneModelInto(to model.Model) { r.copyTo(to.(*LogicalRouterPort)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LogicalRouterPort) EqualsModel(other model.Model) bool {
	o, ok := other.(*LogicalRouterPort)
	return ok && r.UUID == o.UUID && r.Name == o.Name && r.MAC == o.MAC &&
		slices.Equal(r.Networks, o.Networks) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *LogicalRouterPort) copyTo(to *LogicalRouterPort) {
	*to = *r
	to.Networks, to.ExternalIDs = slices.Clone(r.Networks), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LogicalSwitch) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LogicalSwitch) CloneModelInto(to model.Model) { r.copyTo(to.(*LogicalSwitch)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LogicalSwitch) EqualsModel(other model.Model) bool {
	o, ok := other.(*LogicalSwitch)
	return ok && r.UUID == o.UUID && r.Name == o.Name && maps.Equal(r.OtherConfig, o.OtherConfig) &&
		maps.Equal(r.ExternalIDs, o.ExternalIDs) && slices.Equal(r.Ports, o.Ports) &&
		slices.Equal(r.LoadBalancerGroups, o.LoadBalancerGroups) && slices.Equal(r.ACLs, o.ACLs)
}

func (r *LogicalSwitch) copyTo(to *LogicalSwitch) {
	*to = *r
	to.LoadBalancerGroups, to.ACLs = slices.Clone(r.LoadBalancerGroups), slices.Clone(r.ACLs)
	to.OtherConfig, to.ExternalIDs, to.Ports = maps.Clone(r.OtherConfig), maps.Clone(r.ExternalIDs), slices.Clone(r.Ports)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LogicalSwitchPort) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LogicalSwitchPort) CloneModelInto(to model.Model) { r.copyTo(to.(*LogicalSwitchPort)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LogicalSwitchPort) EqualsModel(other model.Model) bool {
	o, ok := other.(*LogicalSwitchPort)
	return ok && r.UUID == o.UUID && r.Name == o.Name && r.Type == o.Type &&
		slices.Equal(r.Addresses, o.Addresses) && slices.Equal(r.PortSecurity, o.PortSecurity) &&
		maps.Equal(r.Options, o.Options) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *LogicalSwitchPort) copyTo(to *LogicalSwitchPort) {
	*to = *r
	to.Addresses, to.PortSecurity = slices.Clone(r.Addresses), slices.Clone(r.PortSecurity)
	to.Options, to.ExternalIDs = maps.Clone(r.Options), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *StaticRoute) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *StaticRoute) CloneModelInto(to model.Model) { r.copyTo(to.(*StaticRoute)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *StaticRoute) EqualsModel(other model.Model) bool {
	o, ok := other.(*StaticRoute)
	return ok && r.UUID == o.UUID && r.IPPrefix == o.IPPrefix && r.Nexthop == o.Nexthop &&
		same(r.OutputPort, o.OutputPort) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *StaticRoute) copyTo(to *StaticRoute) {
	*to = *r
	to.OutputPort, to.ExternalIDs = copied(r.OutputPort), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LoadBalancer) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LoadBalancer) CloneModelInto(to model.Model) { r.copyTo(to.(*LoadBalancer)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LoadBalancer) EqualsModel(other model.Model) bool {
	o, ok := other.(*LoadBalancer)
	return ok && r.UUID == o.UUID && r.Name == o.Name && maps.Equal(r.Vips, o.Vips) &&
		same(r.Protocol, o.Protocol) && slices.Equal(r.SelectionFields, o.SelectionFields) &&
		maps.Equal(r.Options, o.Options) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *LoadBalancer) copyTo(to *LoadBalancer) {
	*to = *r
	to.Vips, to.Protocol, to.SelectionFields = maps.Clone(r.Vips), copied(r.Protocol), slices.Clone(r.SelectionFields)
	to.Options, to.ExternalIDs = maps.Clone(r.Options), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LoadBalancerGroup) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LoadBalancerGroup) CloneModelInto(to model.Model) { r.copyTo(to.(*LoadBalancerGroup)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LoadBalancerGroup) EqualsModel(other model.Model) bool {
	o, ok := other.(*LoadBalancerGroup)
	return ok && r.UUID == o.UUID && r.Name == o.Name && slices.Equal(r.LoadBalancers, o.LoadBalancers)
}

func (r *LoadBalancerGroup) copyTo(to *LoadBalancerGroup) {
	*to = *r
	to.LoadBalancers = slices.Clone(r.LoadBalancers)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *PortGroup) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *PortGroup) CloneModelInto(to model.Model) { r.copyTo(to.(*PortGroup)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *PortGroup) EqualsModel(other model.Model) bool {
	o, ok := other.(*PortGroup)
	return ok && r.UUID == o.UUID && r.Name == o.Name && maps.Equal(r.ExternalIDs, o.ExternalIDs) &&
		slices.Equal(r.Ports, o.Ports) && slices.Equal(r.ACLs, o.ACLs)
}

func (r *PortGroup) copyTo(to *PortGroup) {
	*to = *r
	to.ExternalIDs, to.Ports, to.ACLs = maps.Clone(r.ExternalIDs), slices.Clone(r.Ports), slices.Clone(r.ACLs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *ACL) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *ACL) CloneModelInto(to model.Model) { r.copyTo(to.(*ACL)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *ACL) EqualsModel(other model.Model) bool {
	o, ok := other.(*ACL)
	return ok && r.UUID == o.UUID && same(r.Name, o.Name) && r.Tier == o.Tier && r.Priority == o.Priority &&
		r.Direction == o.Direction && r.Match == o.Match && r.Action == o.Action && r.Log == o.Log &&
		same(r.Meter, o.Meter) && maps.Equal(r.Options, o.Options) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *ACL) copyTo(to *ACL) {
	*to = *r
	to.Name, to.Meter = copied(r.Name), copied(r.Meter)
	to.Options, to.ExternalIDs = maps.Clone(r.Options), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *AddressSet) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *AddressSet) CloneModelInto(to model.Model) { r.copyTo(to.(*AddressSet)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *AddressSet) EqualsModel(other model.Model) bool {
	o, ok := other.(*AddressSet)
	return ok && r.UUID == o.UUID && r.Name == o.Name && slices.Equal(r.Addresses, o.Addresses) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *AddressSet) copyTo(to *AddressSet) {
	*to = *r
	to.Addresses, to.ExternalIDs = slices.Clone(r.Addresses), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *Meter) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *Meter) CloneModelInto(to model.Model) { r.copyTo(to.(*Meter)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *Meter) EqualsModel(other model.Model) bool {
	o, ok := other.(*Meter)
	return ok && r.UUID == o.UUID && r.Name == o.Name && r.Unit == o.Unit && same(r.Fair, o.Fair) &&
		slices.Equal(r.Bands, o.Bands) && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *Meter) copyTo(to *Meter) {
	*to = *r
	to.Fair, to.Bands, to.ExternalIDs = copied(r.Fair), slices.Clone(r.Bands), maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *MeterBand) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *MeterBand) CloneModelInto(to model.Model) { r.copyTo(to.(*MeterBand)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *MeterBand) EqualsModel(other model.Model) bool {
	o, ok := other.(*MeterBand)
	return ok && r.UUID == o.UUID && r.Action == o.Action && r.Rate == o.Rate && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *MeterBand) copyTo(to *MeterBand) {
	*to = *r
	to.ExternalIDs = maps.Clone(r.ExternalIDs)
}

// same compares two optional values.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// copied is an optional value of its own.
func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

func clone[T any](_ *T, copyTo func(*T)) model.Model {
	to := new(T)
	copyTo(to)
	return to
}
