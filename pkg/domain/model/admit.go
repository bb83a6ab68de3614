package model

// Admits reports whether pods of a namespace may attach to the Network, which is not the cluster's default one: those
// that it selects, else its tenant's, else those whose label names it.
func (n Network) Admits(ns Namespace) bool {
	switch {
	case n.Allowed != nil:
		return n.Allowed.Matches(ns.Labels)
	case n.Tenant != "":
		return ns.Tenant() == n.Tenant
	}
	return ns.Network() == n.Name
}

// AdmitsAsDefault reports the same of the cluster's default Network. It is nobody's way out of another Network: whatever
// it selects, it admits no namespace that has a Network of its own.
func (n Network) AdmitsAsDefault(ns Namespace) bool {
	switch {
	case n.hasOther(ns):
		return false
	case n.Allowed != nil:
		return n.Allowed.Matches(ns.Labels)
	}
	return n.Tenant == "" || ns.Tenant() == n.Tenant
}

// hasOther reports whether a namespace has another Network of its own: its label names one, or it names none and belongs to a tenant, whose
// default Network is its home. (A tenant's namespace for the cluster's default Network says so by its label.)
func (n Network) hasOther(ns Namespace) bool { return ns.Home() != "" && ns.Home() != n.Name }
