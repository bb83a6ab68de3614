// Package domain groups Atoll's values and pure rules. They know no OVN, no Kubernetes and no I/O.
//
//	model        the values: Network, Pod, Service, Policy, and the Problems that users read
//	match        does a selector select these labels?
//	alloc        the addresses of one CIDR
//	compatible   which Networks reach each other, and in which mode
//	visible      which Services a Network knows, and what their names stand for there
//	egress       what a Network's pods reach past it
//	isolation    is a Network, or a Tenant, isolated hard or soft?
//
// It has no code of its own. Packages below it import each other and Go's standard library, and nothing else.
package domain
