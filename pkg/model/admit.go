package model

// Admits reports whether pods of a namespace may attach to the Network.
func (n Network) Admits(ns Namespace) bool {
	switch {
	case n.Allowed != nil:
		return n.Allowed.Matches(ns.Labels)
	case n.Tenant != "":
		return ns.Tenant() == n.Tenant
	}
	return true
}
