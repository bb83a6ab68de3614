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
	return ok && r.UUID == o.UUID && maps.Equal(r.ExternalIDs, o.ExternalIDs)
}

func (r *Global) copyTo(to *Global) {
	*to = *r
	to.ExternalIDs = maps.Clone(r.ExternalIDs)
}

// CloneModel implements libovsdb's model.CloneableModel.
func (r *LogicalRouter) CloneModel() model.Model { return clone(r, r.copyTo) }

// CloneModelInto implements libovsdb's model.CloneableModel.
func (r *LogicalRouter) CloneModelInto(to model.Model) { r.copyTo(to.(*LogicalRouter)) }

// EqualsModel implements libovsdb's model.ComparableModel.
func (r *LogicalRouter) EqualsModel(other model.Model) bool {
	o, ok := other.(*LogicalRouter)
	return ok && r.UUID == o.UUID && r.Name == o.Name && maps.Equal(r.Options, o.Options) &&
		maps.Equal(r.ExternalIDs, o.ExternalIDs) && slices.Equal(r.Ports, o.Ports)
}

func (r *LogicalRouter) copyTo(to *LogicalRouter) {
	*to = *r
	to.Options, to.ExternalIDs, to.Ports = maps.Clone(r.Options), maps.Clone(r.ExternalIDs), slices.Clone(r.Ports)
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
		maps.Equal(r.ExternalIDs, o.ExternalIDs) && slices.Equal(r.Ports, o.Ports)
}

func (r *LogicalSwitch) copyTo(to *LogicalSwitch) {
	*to = *r
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

func clone[T any](_ *T, copyTo func(*T)) model.Model {
	to := new(T)
	copyTo(to)
	return to
}
