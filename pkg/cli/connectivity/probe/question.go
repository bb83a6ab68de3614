// Package probe is what runs in the pods of atoll connectivity test: a server that says who it is, and an asker that tries what
// it is told and says who answered.
//
// Questions come in as JSON on the command line, and answers go out as JSON on standard output, so that a pod can be asked by
// exec when its network is what is broken. Addresses of different Networks overlap: an address never says who answered, an
// Identity does.
//
// It needs no right at all, so that its pods fit the strictest Pod Security level.
package probe

import (
	"net/netip"
	"time"
)

// Port is where the server answers, by HTTP and by UDP.
const Port = 8080

// WhoPath is where it says by HTTP who it is, to the kubelet's probes too.
const WhoPath = "/who"

// Kind is how something is tried.
type Kind string

const (
	// HTTP asks a server of this package who it is.
	HTTP Kind = "http"
	// UDP asks the same by a datagram.
	UDP Kind = "udp"
	// Connect opens a TCP connection, to whomever.
	Connect Kind = "connect"
	// Name looks a name up, as any program of the pod does.
	Name Kind = "name"
	// API asks the Kubernetes API for its version, with the pod's token, and takes an answer only from a server with the cluster's
	// certificate.
	API Kind = "api"
)

// Identity says who a server is. It comes from the downward API, not from an address.
type Identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String is the pod as users write it: namespace/name.
func (i Identity) String() string { return i.Namespace + "/" + i.Name }

// Question is one thing to try.
type Question struct {
	Kind Kind `json:"kind"`
	// Target is HOST:PORT, or a name that is looked up. Empty with API: where the pod's environment says that the API is.
	Target string `json:"target,omitempty"`
	// Addresses are what a name has to stand for; without any, something.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Patience is how long it is tried again while there is no answer.
	Patience time.Duration `json:"patience"`
}

// Answer is what became of a Question.
type Answer struct {
	// Answered: somebody answered; a name stands for what it has to; the API answered as itself.
	Answered bool `json:"answered"`
	// Answerer is who, with HTTP and UDP.
	Answerer Identity `json:"answerer,omitzero"`
	// Addresses are what a name stands for, or which one a connection led to.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Missing: the name does not exist, which is an answer, too.
	Missing bool `json:"missing,omitempty"`
	// Error is how the last try failed.
	Error string `json:"error,omitempty"`
	// Took is the time of the try that was answered, or of all tries.
	Took time.Duration `json:"took"`
}
