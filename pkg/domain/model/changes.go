package model

import "reflect"

// Changes is what has changed in the cluster since it was last asked: the newest state of each object, nil
// for one that has gone (a pod that has finished has gone too). Each field is a map of one kind of objects; a new kind is a new field.
type Changes struct {
	Networks   map[string]*Network
	Tenants    map[string]*Tenant
	Namespaces map[string]*Namespace
	Pods       map[PodKey]*Pod
	Nodes      map[string]*Node
	Reports    map[string]*NodeReport
	ShutOut    map[string]*ShutOut
	Services   map[ServiceKey]*Service
	Slices     map[SliceKey]*Slice
	Classes    map[string]*GatewayClass
	Gateways   map[GatewayKey]*Gateway
	Routes     map[RouteKey]*Route
	Grants     map[GrantKey]*Grant
	Policies   map[PolicyKey]*Policy
}

// NewChanges are none, of all kinds.
func NewChanges() Changes {
	return Changes{
		Networks: map[string]*Network{}, Tenants: map[string]*Tenant{}, Namespaces: map[string]*Namespace{}, Pods: map[PodKey]*Pod{},
		Nodes: map[string]*Node{}, Reports: map[string]*NodeReport{}, ShutOut: map[string]*ShutOut{}, Services: map[ServiceKey]*Service{},
		Slices:  map[SliceKey]*Slice{},
		Classes: map[string]*GatewayClass{}, Gateways: map[GatewayKey]*Gateway{}, Routes: map[RouteKey]*Route{}, Grants: map[GrantKey]*Grant{},
		Policies: map[PolicyKey]*Policy{},
	}
}

// kinds are the fields.
func (c *Changes) kinds() []reflect.Value {
	fields := reflect.ValueOf(c).Elem()
	kinds := make([]reflect.Value, 0, fields.NumField())
	for _, field := range fields.Fields() {
		kinds = append(kinds, field)
	}
	return kinds
}

// Empty reports whether nothing has changed.
func (c *Changes) Empty() bool {
	for _, kind := range c.kinds() {
		if kind.Len() > 0 {
			return false
		}
	}
	return true
}

// Merge adds newer changes: where both have an object, the newer state is kept.
func (c *Changes) Merge(newer Changes) {
	kinds := c.kinds()
	for i, kind := range newer.kinds() {
		for key, object := range kind.Seq2() {
			kinds[i].SetMapIndex(key, object)
		}
	}
}

// Settle drops what has gone: what stays is what is there.
func (c *Changes) Settle() {
	for _, kind := range c.kinds() {
		for key, object := range kind.Seq2() {
			if object.IsNil() {
				kind.SetMapIndex(key, reflect.Value{})
			}
		}
	}
}
