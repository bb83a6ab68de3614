// Package wire holds what netprobe reads and prints: the words in which a test tells a pod what to probe and
// in which pods tell what they saw.
//
// Addresses of different Networks overlap, so that an address never says who answered. Two things do: the
// Identity in an answer, and the Sighting of a probe's token, which must be unique among all probes of a run.
package wire

import (
	"fmt"
	"net/netip"
	"time"
)

// DefaultPort is where netprobe serves TCP and UDP, HTTPPort where it serves ReadyPath, and GRPCPort where it answers
// health checks of gRPC.
const (
	DefaultPort = 8080
	HTTPPort    = 8081
	GRPCPort    = 8082
	ReadyPath   = "/ready"
)

// Socket is the abstract unix socket by which a pod's server hands out its sightings. Abstract names belong
// to the network namespace, so that every pod has its own.
const Socket = "@netprobe"

// MaxToken is the longest token, in bytes.
const MaxToken = 64

// Protocol is how a target is probed.
type Protocol string

// The protocols.
const (
	ICMP Protocol = "icmp"
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
)

// Identity says who a server is. It comes from the downward API, not from an address.
type Identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node,omitempty"`
}

// String is the pod as users write it: namespace/name.
func (i Identity) String() string { return i.Namespace + "/" + i.Name }

// Target is one thing to probe.
type Target struct {
	Address  netip.Addr `json:"address"`
	Protocol Protocol   `json:"protocol"`
	// Port for TCP and UDP; 0 means DefaultPort.
	Port uint16 `json:"port,omitempty"`
	// Token is carried by every packet of the probe.
	Token string `json:"token"`
}

// Validate says what is wrong with t.
func (t Target) Validate() error {
	if !t.Address.IsValid() {
		return fmt.Errorf("target %q has no address", t.Token)
	}
	switch t.Protocol {
	case ICMP, TCP, UDP:
	default:
		return fmt.Errorf("target %q: unknown protocol %q", t.Token, t.Protocol)
	}
	if !ValidToken(t.Token) {
		return fmt.Errorf("target %s: token %q is not 1 to %d letters, digits, dots or dashes", t.Address, t.Token, MaxToken)
	}
	return nil
}

// AddrPort is where TCP and UDP go.
func (t Target) AddrPort() netip.AddrPort {
	port := t.Port
	if port == 0 {
		port = DefaultPort
	}
	return netip.AddrPortFrom(t.Address, port)
}

// Result is what became of one Target, found by its token.
type Result struct {
	Token    string `json:"token"`
	Answered bool   `json:"answered"`
	// Answerer is who answered. An echo reply does not say: it is zero for ICMP.
	Answerer Identity `json:"by,omitzero"`
	// Connected: somebody took a connection, netprobe or not.
	Connected bool `json:"connected,omitempty"`
	// RTT is the time from the last try to the answer.
	RTT time.Duration `json:"rttNanoseconds,omitempty"`
	// Tries counts packets or connections that were sent.
	Tries int `json:"tries"`
	// Error says why no probe could be sent, or how the last one was refused.
	Error string `json:"error,omitempty"`
}

// Answer is what a server says over TCP and UDP.
type Answer struct {
	Token    string   `json:"token"`
	Answerer Identity `json:"by"`
}

// Sighting is a token that reached a pod.
type Sighting struct {
	Token    string     `json:"token"`
	Protocol Protocol   `json:"protocol"`
	From     netip.Addr `json:"from"`
}

// ValidToken reports whether s can be a token.
func ValidToken(s string) bool {
	if s == "" || len(s) > MaxToken {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

// Own is what a program sees of its pod's addresses.
type Own struct {
	// Command is that of the container's first process, and Environment the container's, as NAME=VALUE.
	Command     []string `json:"command"`
	Environment []string `json:"environment"`
	// Hosts is the text of /etc/hosts.
	Hosts string `json:"hosts"`
	// Names are the addresses that the pod's own host name leads to.
	Names []string `json:"names"`
}

// Ready is the answer to a GET of ReadyPath.
type Ready struct {
	Identity
	// Client is the address and port that the question came from.
	Client string `json:"client"`
}

// Name is what a name is to a program of the pod.
type Name struct {
	Name string `json:"name"`
	// Addresses are sorted; none when the name does not exist.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Error says why there was no answer.
	Error string `json:"error,omitempty"`
}

// LoadBy is how a load asks.
type LoadBy string

// The ways to ask again and again.
const (
	// LoadTCP makes a connection for each question, LoadHTTP keeps one for all, LoadUDP keeps a socket. LoadDNS asks a DNS server for the
	// Kubernetes API, once each time, and LoadDNSTCP by TCP.
	LoadTCP    LoadBy = "tcp"
	LoadHTTP   LoadBy = "http"
	LoadUDP    LoadBy = "udp"
	LoadDNS    LoadBy = "dns"
	LoadDNSTCP LoadBy = "dns-tcp"
)

// Load is what came of many questions.
type Load struct {
	Answers int `json:"answers"`
	// Connections that were made, or sockets.
	Connections int `json:"connections"`
	// ByServer counts the answers of each server, by its UID; Spans say from when until when it answered.
	ByServer map[string]int  `json:"by"`
	Spans    map[string]Span `json:"spans,omitempty"`
	// Errors counts what failed, by its words; Failures are the first of them, at most MaxFailures.
	Errors   map[string]int `json:"errors,omitempty"`
	Failures []Failure      `json:"failures,omitempty"`
	// Renewed are the questions for which a connection that is kept had to be made anew, and why.
	Renewed []Failure `json:"renewed,omitempty"`
	// Late is how many questions by UDP were answered after the next had been asked. They are neither answers nor errors.
	Late int `json:"late,omitempty"`
	// Waited is how many questions were answered no sooner than a lost packet that begins a connection is sent again (Retransmission).
	Waited  int     `json:"waited,omitempty"`
	Seconds float64 `json:"seconds"`
	// P50, P99 and Max are times from a question to its answer or failure.
	P50 time.Duration `json:"p50Nanoseconds"`
	P99 time.Duration `json:"p99Nanoseconds"`
	Max time.Duration `json:"maxNanoseconds"`
	// MaxAsked is when the question was asked that took longest.
	MaxAsked time.Time `json:"maxAsked"`
}

// Retransmission is about when Linux sends the first packet of a connection by TCP again: after 1 s.
const Retransmission = 900 * time.Millisecond

// Span is when the first and the last question were asked that a server answered.
type Span struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// MaxFailures bounds how many failures of a load are told one by one.
const MaxFailures = 100

// Failure is a question that was not answered.
type Failure struct {
	// Asked is when, and Took how long it was until that was clear.
	Asked time.Time     `json:"asked"`
	Took  time.Duration `json:"tookNanoseconds"`
	Error string        `json:"error"`
}

// Said is what a DNS server answered to one question.
type Said struct {
	// Status is the name of the response code, such as NXDOMAIN.
	Status string `json:"status,omitempty"`
	// Truncated: there is more, by TCP.
	Truncated bool `json:"truncated,omitempty"`
	// Records are the values in the answer, in its order.
	Records []string `json:"records"`
	// Error says why there was no answer.
	Error string `json:"error,omitempty"`
}
