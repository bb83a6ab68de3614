package v1alpha1

// Hardness says whether an isolation has exceptions that somebody configured.
//
// +kubebuilder:validation:Enum=Hard;Soft
type Hardness string

// The degrees of it.
const (
	Hard Hardness = "Hard"
	Soft Hardness = "Soft"
)

// Isolation is how a Network is isolated from everything outside it, or a Tenant from everything that is not its own.
// It is judged by what is configured.
type Isolation struct {
	// Hard: pods inside and pods outside do not reach each other, except for the infrastructure.
	//
	// +required
	Pods Hardness `json:"pods"`
	// Hard: pods inside learn no names of others, and others learn no names of theirs.
	//
	// +required
	DNS Hardness `json:"dns"`
	// Hard if both are.
	//
	// +required
	Overall Hardness `json:"overall"`
	// What makes it soft: one entry for each reason, sorted.
	//
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=16
	Reasons []IsolationReason `json:"reasons,omitempty"`
}

// IsolationReason is something that makes isolation soft.
type IsolationReason struct {
	// In one word.
	//
	// +required
	Reason string `json:"reason"`
	// In a sentence, with the field that makes it soft, and what to do.
	//
	// +required
	Message string `json:"message"`
}
