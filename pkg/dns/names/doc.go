// Package names is the process that answers the DNS questions of a node's pods in Networks of type vpc. It is apart from the agent, so
// that names go on while that is replaced or away.
//
//	API server: namespaces, Services, mirrors ──▶ dns.Directory ─┐
//	API server: Networks ──┐                                     ▼
//	/var/run/netns/atoll-* ┴▶ portholes ──▶ dns.Node: sockets in each porthole
//	agent ──▶ package call ──▶ portholes
//
// What must stay true:
//
//   - The portholes say where to answer: at the addresses that the agent gave to a porthole's loopback interface. Without any,
//     nobody answers there. The agent's requests only make it soon.
//   - Nothing is opened before everything has been read once: until then a predecessor answers, or nobody.
//   - Who ends on request leaves nothing unanswered that came before its successor's sockets got everything (dns.Node.Drain).
package names
