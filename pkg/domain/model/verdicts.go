package model

// NodeVerdicts are what the policies' rows decided on a node, as its agent serves it to the command line.
type NodeVerdicts struct {
	Node     string         `json:"node"`
	Verdicts []VerdictCount `json:"verdicts"`
}

// VerdictCount is how many packets one rule decided about. Its words are those of an ACL's origin (package nb).
type VerdictCount struct {
	Network   string `json:"network"`
	Policy    string `json:"policy"`
	Direction string `json:"direction"`
	// Rule is empty where it is no policy's.
	Rule    string `json:"rule,omitempty"`
	Verdict string `json:"verdict"`
	// Packets since the agent began to count; of a connection each that its beginner sends.
	Packets uint64 `json:"packets"`
	// Pods are the packets by pod, where isolation dropped them: since the pod's flows were made.
	Pods map[string]uint64 `json:"pods,omitempty"`
}
