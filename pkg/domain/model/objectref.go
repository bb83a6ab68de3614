package model

// ObjectRef names an object of the cluster, for those who tell its owner something.
type ObjectRef struct {
	APIVersion, Kind, Namespace, Name, UID string
	// Tenant is whose it is if it has no namespace; empty: nobody's.
	Tenant string
}

// String is the object's kind and name.
func (o ObjectRef) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Ref names the pod.
func (p Pod) Ref() ObjectRef {
	return ObjectRef{APIVersion: "v1", Kind: "Pod", Namespace: p.Key.Namespace, Name: p.Key.Name, UID: p.UID}
}

// Ref names the namespace, as an object inside itself: its users see there what is said of it.
func (n Namespace) Ref() ObjectRef {
	return ObjectRef{APIVersion: "v1", Kind: "Namespace", Namespace: n.Name, Name: n.Name, UID: n.UID}
}

// Ref names the Node.
func (n Node) Ref() ObjectRef {
	return ObjectRef{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}

// Ref names the Service.
func (s Service) Ref() ObjectRef {
	return ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: s.Key.Namespace, Name: s.Key.Name, UID: s.UID}
}

// Ref names the Network.
func (n Network) Ref() ObjectRef {
	return ObjectRef{APIVersion: apiVersion, Kind: "Network", Name: n.Name, UID: n.UID, Tenant: n.Tenant}
}

// Ref names the Tenant.
func (t Tenant) Ref() ObjectRef {
	return ObjectRef{APIVersion: apiVersion, Kind: "Tenant", Name: t.Name, UID: t.UID, Tenant: t.Name}
}

// apiVersion is that of our own objects.
const apiVersion = "atoll.dev/v1alpha1"
