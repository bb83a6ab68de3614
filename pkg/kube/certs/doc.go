// Package certs gives OVN's members, nodes, their agents, Atoll's controllers and atoll-inspect their certificates.
//
// Three authorities sign: the central one for servers of databases, ovn-northd, controllers, and atoll-inspect as a client; that
// of nodes for ovn-controllers, and for agents, which read the southbound database; that of agents for what agents serve to
// atoll-inspect, and what atoll-inspect serves to the API server. The leading controller keeps them in Secrets (Store), and
// answers CertificateSigningRequests (Signer). What it grants is decided by Judge, from the request and the Node that its
// requester's token names; nothing else of a request gets into a certificate. Keep is the other side: it makes a key, asks, and
// keeps a directory of files up to date for a daemon.
//
//	Keep ─ CertificateSigningRequest ─> Signer ─ Judge ─ Authority.Issue ─> Keep ─> tls.key, tls.crt, ca.crt, central-ca.crt
//	Store ─ Secrets atoll-ca-*; ConfigMap atoll-ca ──────────────────────────────────────────────────────^
//
// What must stay true: a node has certificates of its own name only; only the central authority's certificates are a server's, but
// for those of agents, which atoll-inspect alone believes, and those of atoll-inspect, which the API server believes; an authority's
// certificate is published before it signs, and as long as anything that it signed is valid. docs/design/certificates.md says more.
package certs
