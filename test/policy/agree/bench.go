package agree

import (
	"context"
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovn/trace"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Bench is a running OVN that cases are tried on, one after the other.
type Bench struct {
	central *ovn.Central
	nb      *northbound
}

// Open makes a bench of a central that has nothing else to do.
func Open(ctx context.Context, central *ovn.Central) (*Bench, error) {
	n, err := openNorthbound(ctx, central)
	if err != nil {
		return nil, err
	}
	return &Bench{central: central, nb: n}, nil
}

// Close ends the connection to the database.
func (b *Bench) Close() { b.nb.close() }

// Disagreement is a packet of which OVN, or the tracer of the command line, does something else than the oracle says.
type Disagreement struct {
	Packet  cases.Packet
	Verdict oracle.Verdict
	// What became of it, in words.
	What string
	// Trace is what ovn-trace has to say about it, step by step.
	Trace string
}

// String is for people.
func (d Disagreement) String() string {
	from, to, by := d.Packet.From, d.Packet.To, ""
	if d.Packet.Dial.IsValid() {
		by = " by Service " + d.Packet.Dial.String()
	}
	return fmt.Sprintf("Network %s: %s%s %s -> %s %s %s port %d%s: oracle: %s; OVN: %s", d.Packet.Network,
		from.Pod, from.Node, from.Address, to.Pod, to.Address, d.Packet.Protocol, d.Packet.Port, by, d.Verdict, d.What)
}

// Try puts a cluster on the bench, sends packets, and answers those that arrive. An error means that the case could not be
// tried.
func (b *Bench) Try(ctx context.Context, c cases.Case) ([]Disagreement, error) {
	made, err := productOf(c)
	if err != nil {
		return nil, err
	}
	if err := b.nb.replace(ctx, made); err != nil {
		return nil, err
	}
	first, err := b.central.Trace(ctx, "new")
	if err != nil {
		return nil, err
	}
	defer first.Stop()
	answers, err := b.central.Trace(ctx, "est,rpl")
	if err != nil {
		return nil, err
	}
	defer answers.Stop()
	var out []Disagreement
	rows := trace.New(b.nb.session.Rows)
	for _, packet := range c.Packets {
		verdict := c.Judge(packet.Packet)
		itself := packet.From.Pod != "" && packet.From.Pod == packet.To.Pod
		if !itself {
			what, err := follow(rows, packet, verdict)
			if err != nil {
				return nil, err
			}
			if what != "" {
				out = append(out, Disagreement{packet, verdict, what, ""})
				continue
			}
		}
		if !traceable(packet.Packet, verdict) {
			continue
		}
		there, err := made.sendingOf(packet, clientPort)
		if err != nil {
			return nil, err
		}
		back, err := made.answerOf(packet.Packet, entrance(reversed(packet.Packet)), clientPort)
		if err != nil {
			return nil, err
		}
		what, steps, err := compare(verdict, asked{first, there}, asked{answers, back})
		if err != nil {
			return nil, err
		}
		if what != "" {
			out = append(out, Disagreement{packet, verdict, what, steps})
		}
	}
	return out, nil
}

// compare says in words what OVN does otherwise than the verdict, with all that ovn-trace has to say about it; nothing if it
// agrees. What arrives is answered.
func compare(v oracle.Verdict, there, back asked) (what, steps string, err error) {
	arrived, err := there.arrives()
	if err == nil && arrived == v.Allowed {
		if !arrived {
			return "", "", nil
		}
		if arrived, err = back.arrives(); err != nil || arrived {
			return "", "", err
		}
		steps, err = back.tracer.Detail(back.microflow())
		return "let through, and its answer dropped", steps, err
	}
	if err != nil {
		return "", "", err
	}
	what = "dropped"
	if arrived {
		what = "let through"
	}
	steps, err = there.tracer.Detail(there.microflow())
	return what, steps, err
}

// asked is a packet that a tracer is asked about.
type asked struct {
	tracer *ovn.Tracer
	sending
}

// arrives reports whether the packet comes out where it should.
func (a asked) arrives() (bool, error) {
	said, err := a.tracer.Ask(a.microflow())
	return strings.Contains(said, fmt.Sprintf("output(%q)", a.egress)), err
}

// traceable reports whether ovn-trace can tell: a packet of a pod to itself does not leave it, and ovn-trace takes every
// port for one of the pod's own chassis, by which in the default Network a pod tells its own node from another.
func traceable(p oracle.Packet, v oracle.Verdict) bool {
	otherNode := p.Network == cases.Default && p.From.Node != "" && v.Ingress.Why != oracle.OwnNode
	return !ofItself(p) && !otherNode
}

// ofItself: what a pod sends to itself does not leave it.
func ofItself(p oracle.Packet) bool { return p.From.Pod != "" && p.From.Pod == p.To.Pod }
