package reach

import "github.com/atoll-net/atoll/test/sandbox"

// Example are the subjects of docs/examples/two-networks.
func Example() []Subject {
	return []Subject{
		{Namespace: "blue", Other: "red", Egress: false},
		{Namespace: "red", Other: "blue", Egress: true},
	}
}

// SandboxOutside is what lies outside of a sandbox.
func SandboxOutside() Outside {
	return Outside{Address: sandbox.OutsideAddresses()[0], Name: "www.outside.test", UID: sandbox.Outside}
}
