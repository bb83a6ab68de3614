package model

// TenantFinalizer keeps a Tenant until its Networks have gone.
const TenantFinalizer = Group + "/tenant"

// Tenant is a Tenant object: somebody to whom namespaces and Networks belong, as their labels and specs say. Its default Network
// has its name.
type Tenant struct {
	Name       string
	UID        string
	Generation int64
	// Template is what its default Network is made from, empty: the cluster's. Fallback has what of that the template leaves open.
	Template, Fallback NetworkTemplate
	// Admins may write its Networks.
	Admins []TenantAdmin
	// Networks, Pods, Services and Gateways bound how many it may have.
	Networks, Pods, Services, Gateways Quota
	// Isolated is the verdict that its status tells; empty: none.
	Isolated Hardness
	// Deleting: the object waits for its finalizers. Finalized: it carries TenantFinalizer.
	Deleting, Finalized bool
}

// NetworkTemplate is the template of a Network, as its owner wrote it, in JSON. Nothing is decided by it before a Network is made
// from it. Empty means none.
type NetworkTemplate string

// DefaultNetwork is what a Tenant's default Network is made from. It has the Tenant's name and goes with it.
type DefaultNetwork struct {
	Tenant, TenantUID  string
	Template, Fallback NetworkTemplate
}

// Quota bounds how many of something there may be. The zero value bounds nothing.
type Quota struct {
	Bounded bool
	Hard    int64
}

// Full reports whether one more than used is too many.
func (q Quota) Full(used int64) bool { return q.Bounded && used >= q.Hard }

// TenantAdmin is an RBAC subject that may write a Tenant's Networks.
type TenantAdmin struct {
	Kind, Namespace, Name string
}

// TenantRole is what a Tenant's admins may do, and who they are.
type TenantRole struct {
	Tenant, TenantUID string
	// Networks are those that belong to it, sorted.
	Networks []string
	Admins   []TenantAdmin
}

// TenantStatus is what the controller reports of a Tenant.
type TenantStatus struct {
	ObservedGeneration int64
	Phase              Phase
	// Conditions, sorted by Type.
	Conditions []Condition
	// DefaultNetwork is empty while it is not there.
	DefaultNetwork string
	// Networks, Namespaces and Pods are counted; of pods those that hold an address. So are Services and Gateways that may be served.
	Networks, Namespaces, Pods, Services, Gateways int64
	// Quotas are those that it has, sorted by what they bound.
	Quotas []QuotaStatus
	// Isolation is nil while nothing is known of it.
	Isolation *Isolation
}

// QuotaStatus is what is used of a quota.
type QuotaStatus struct {
	Resource   string
	Used, Hard int64
}

// The types of the conditions of a Tenant, beside ConditionReady, ConditionDNSReady and ConditionInUse.
const ConditionNetworksReady = "NetworksReady"

// The reasons of what a Tenant is told.
const (
	// ReasonNameTaken: a Network that is not the Tenant's has its name.
	ReasonNameTaken = "NameTaken"
	// ReasonQuotaExceeded: the Tenant has as many as it may have.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonTemplateRefused: the API server does not take the default Network.
	ReasonTemplateRefused = "TemplateRefused"
)
