// Package services decides about Services: which virtual addresses of its Network a Service has, in which Networks it is known and
// where it leads there, and what of it is mirrored.
//
//	what changed, by World's topics --> Claim --ledger--> grants --> Compile: what is shown on the Service, Events
//	                                         look: endpoints, their pods and Networks --> rows, mirrors, Compiled, Answering
//
// What a Service has looked at is recorded, and it is looked at again when that changes. A Service leads to no pod of a Network that
// its namespace may not use.
package services
