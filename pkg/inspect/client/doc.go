// Package client asks the API inspect.atoll.dev with a user's own rights.
//
//	Remote --GET, POST--> API server --> atoll-inspect
//	   +-- where nobody answers --> what Kubernetes tells, as snapshot.Sources --> status, ipam, topology, trial
//
// What must stay true: an answer that is made locally comes with a note, which says what it is without.
package client
