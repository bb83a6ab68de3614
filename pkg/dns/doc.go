// Package dns answers the DNS questions of pods in Networks of their own, on the pods' node.
//
//	Services, slices, namespaces, Networks ──▶ Directory ──▶ one Zone per Network of this node
//	                                                              │
//	pod ──▶ sockets in the Network's porthole ──▶ Server ──▶ Zone ┴▶ answer
//	                                                 └─▶ Forwarder ──▶ the node's own resolvers
//
// Package names, below it, is the program atoll-dns: it follows objects, and names/sockets opens the sockets in portholes for it.
// The agent tells it by names/call which portholes there are.
//
// In go values (Service, Slice, model.Namespace, model.Network); the package knows no Kubernetes types and asks nobody.
// The names are those of the Kubernetes DNS specification 1.1.0 (github.com/kubernetes/dns), with the extensions that
// CoreDNS has and that users know. The wire format is github.com/miekg/dns's.
//
// What must stay true:
//
//   - A Zone holds what its Network may know and nothing else: whatever is asked, names and addresses of other Networks
//     do not exist there, but those that its providers offer. Reverse names of private addresses never leave the node.
//   - A change of one slice touches the records of one Service, in the Networks that see it.
//   - A tenant can use up only what its own Network has: queries per second, connections, questions on their way to the
//     node's resolvers and cache are bounded per Network, and nothing but the resolvers is shared.
//   - Before the first list of everything is complete, a name that is not known is a failure and not a denial.
package dns
