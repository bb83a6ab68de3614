package question

import (
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Question asks for the whole way between two ends.
type Question struct {
	From, To End
	// Network says in which Network an address among the ends is. Empty: a destination is what it means to the sender; a sender's must be
	// somebody's alone.
	Network string
	// Protocol is trace.ICMP or a transport protocol.
	Protocol model.Protocol
	// Port that is dialled: of a Service, the Service's; 0 for ICMP, which has none.
	Port uint16
}

// Check says what is wrong with a question.
func (q Question) Check() error {
	if err := q.checkPacket(); err != nil {
		return err
	}
	return q.checkEnds()
}

// checkPacket says what is wrong with the protocol and the port.
func (q Question) checkPacket() error {
	switch {
	case !slices.Contains([]model.Protocol{model.TCP, model.UDP, model.SCTP, trace.ICMP}, q.Protocol):
		return fmt.Errorf("--protocol: %q is none of tcp, udp, sctp and icmp", q.Protocol)
	case q.Protocol == trace.ICMP && q.Port != 0:
		return errors.New("--port: icmp has no ports")
	case q.Protocol != trace.ICMP && q.Port == 0:
		return fmt.Errorf("--port: name the port that is dialled by %s", q.Protocol)
	}
	return nil
}

// checkEnds says what is wrong with the ends, and with the Network of their addresses.
func (q Question) checkEnds() error {
	sends := q.From.Pod != (model.PodKey{}) || q.From.Node != "" || q.From.Outside || q.From.Address.IsValid()
	beyond := q.To.Outside || q.To.Name != "" || q.To.Node != ""
	switch {
	case !sends:
		return fmt.Errorf("%s begins no connections: ask from a pod, a node, an address or %s", q.From, OutsideWord)
	case q.From == q.To && !q.From.Address.IsValid():
		return fmt.Errorf("%s: both ends are the same, and what is sent to itself never leaves it", q.From)
	case (q.From.Outside || q.From.Node != "") && beyond:
		return fmt.Errorf("from %s to %s: nothing of Atoll's is on that way; one end must be a pod or a Service", q.From, q.To)
	case q.Network != "" && !q.From.Address.IsValid() && !q.To.Address.IsValid():
		return errors.New("--network says whose an address is: neither end is an address")
	}
	return nil
}
