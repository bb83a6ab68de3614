// Package nodeapi is how atoll-inspect asks the agents of nodes about pods: HTTP over TLS, by certificates that package certs
// gives to both. A question is JSON, its answer is a line of JSON for each thing that becomes known, and a last one that says
// that it is whole.
//
//	inspectapi ── Client ── POST /ping: Question ──▶ Handler ── Agent: the pod's network namespace
//	                     ◀── Line, Line, … Line{End: true} ──
//	           ── Client ── POST /flows: FlowsQuestion ──▶ Handler ── flows of the node
//	                     ◀── FlowLine, FlowLine, … FlowLine{End: true} ──
//	           ── Client ── POST /check: CheckQuestion ──▶ Handler ── what is on the node, and what should be: one NodeCheckStatus
//	           ── Client ── POST /capture: CaptureQuestion ──▶   the same, and CaptureLines
//	           ── Client ── POST /observe: ObserveQuestion ──▶   all interfaces of the node, and ObserveLines
//	           ── Client ── POST /connect: ConnectQuestion ──▶ Handler ── Gate ── a socket of the node's Open vSwitch or OVN
//	                     ◀──────────── bytes, both ways ──────────────▶
//
// What must stay true: a question names a pod by its UID, too, and no answer is about another one. Questions are bounded in
// number, for each share that atoll-inspect names (package turns), and each in time and in bytes, at both ends: neither believes
// the other that it keeps to that. No connection leads to a socket but by a gate, which stands beside it.
package nodeapi

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// Port is where agents listen, unless they are told otherwise.
const Port = 9414

const (
	pathPing    = "/ping"
	pathCapture = "/capture"
	// maxQuestion bounds a question, maxLine a line of an answer, in bytes.
	maxQuestion, maxLine = 16 << 10, 4 << 10
	// maxFlowsQuestion bounds one about flows, which may name as many Networks as a Tenant has.
	maxFlowsQuestion = 256 << 10
	// maxUser bounds the name of who asks.
	maxUser = 256
	// dialTime bounds a connection's making, with its certificates; writeTime how long a line may wait for its reader.
	dialTime, writeTime = 3 * time.Second, 5 * time.Second
	// answerTime bounds a whole answer.
	answerTime = ping.MaxTime + 2*dialTime
)

// Pod is a pod of the agent's node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Key is the pod's name.
func (p Pod) Key() model.PodKey { return model.PodKey{Namespace: p.Namespace, Name: p.Name} }

// asked is a question.
type asked interface {
	// Check says what is wrong with it.
	Check() error
	// by is whose turns it takes.
	by() turns.Who
}

// share is whose turns a question takes.
func share(by turns.Who, user string) turns.Who {
	if by.Share == "" {
		return turns.Who{Share: "user:" + user}
	}
	return by
}

func (q Question) by() turns.Who { return share(q.Account, q.User) }

// Question asks that packets are sent from a pod.
type Question struct {
	// User is on whose account, for the log.
	User string `json:"user"`
	// Account is whose turns it takes; a user's own where nobody says it.
	Account turns.Who `json:"account,omitzero"`
	Pod     Pod       `json:"pod"`
	Ping    ping.Spec `json:"ping"`
}

// Check says what is wrong with it.
func (q Question) Check() error {
	if err := named(q.User, q.Pod); err != nil {
		return err
	}
	return q.Ping.Check()
}

// named is an error unless a question says whose it is, and about which pod.
func named(user string, pod Pod) error {
	switch {
	case pod.Namespace == "" || pod.Name == "" || pod.UID == "":
		return errors.New("a question names a pod, with its UID")
	case user == "":
		return errors.New("a question says on whose account it is asked")
	}
	return nil
}

// Line is a part of an answer: a reply, or its end.
type Line struct {
	Reply *ping.Reply `json:"reply,omitempty"`
	// End: it is whole. Error is why it is not.
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

// RefusedError is what an agent says that cannot or will not answer. Temporary: it may later.
type RefusedError struct {
	What      string
	Temporary bool
}

// Error implements error.
func (e *RefusedError) Error() string { return e.What }

// UnreachableError says that the agent of a node cannot be asked.
type UnreachableError struct {
	Node string
	Err  error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the agent of node %s cannot be asked at port %d: %v. Next: does its atoll-agent run, is it as new as atoll-inspect, "+
		"and do firewalls let the control plane's nodes to that port?", e.Node, Port, e.Err)
}

// Unwrap implements errors.Unwrap.
func (e *UnreachableError) Unwrap() error { return e.Err }

func hostPort(a netip.Addr, port uint16) string {
	return netip.AddrPortFrom(a, port).String()
}

// ListenAddress is where an agent listens that was told an address, with a port or without.
func ListenAddress(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return hostPort(a, Port)
	}
	return text
}

// shortened is a user's name for a log.
func shortened(user string) string { return strconv.QuoteToASCII(bounded(user)) }
