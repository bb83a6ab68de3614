package model

// Hardness says of the walls around something whether they are hard.
type Hardness string

// The degrees of it.
const (
	Hard Hardness = "Hard"
	Soft Hardness = "Soft"
)

// Isolation is how a Network, or a Tenant, is isolated from others.
type Isolation struct {
	// Pods and DNS are its parts: Overall is hard only if both are.
	Pods, DNS, Overall Hardness
	// Reasons say what makes it soft, sorted by Reason, with one of each.
	Reasons []Problem
}

// The reasons of soft isolation, beside ReasonFlatNetwork.
const (
	ReasonDefaultNetwork    = "DefaultNetwork"
	ReasonForeignNamespaces = "ForeignNamespaces"
	ReasonInfraAccessDirect = "InfraAccessDirect"
	ReasonInfraIngressAll   = "InfraIngressAll"
	// ReasonServesOthers: other Networks' pods reach this one's. ReasonUsesOthers: this one's reach those of others.
	ReasonServesOthers = "ServesOtherNetworks"
	ReasonUsesOthers   = "UsesOtherNetworks"
	// ReasonAnsweredByOthers: pods of another Network answer its pods' questions for names.
	ReasonAnsweredByOthers = "AnsweredByOthers"
	// ReasonPrivilegedPods: some of its pods may have all the rights of their nodes.
	ReasonPrivilegedPods = "PrivilegedPods"
	// ReasonPodsElsewhere: a Tenant's namespaces or pods are in Networks that are not its own.
	ReasonPodsElsewhere = "PodsElsewhere"
)

// The reasons of what an owner is told when isolation changes.
const (
	ReasonIsolationHard = "IsolationHard"
	ReasonIsolationSoft = "IsolationSoft"
)
