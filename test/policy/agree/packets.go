package agree

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/frame"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// The ports that connections come from, each only once in so many: no policy can name them.
const firstClient, lastClient = 10000, 60000

// connection is a packet on its way, and its answer.
type connection struct {
	packet      cases.Packet
	verdict     oracle.Verdict
	there, back sending
	// from, to and home are where the packet is sent, where it has to come out, and where its answer has to.
	from, to, home place
}

// Try puts a cluster on the nodes, sends packets, and answers those that arrive. An error means that the case could not be
// tried. It returns how many packets the nodes were asked about, too.
//
// What must not arrive may come late. So it goes last, the nodes show that they have looked at all of it, and what
// arrives is counted until the last port is unplugged.
func (l *Lab) Try(ctx context.Context, c cases.Case) (_ []Disagreement, asked int, err error) {
	made, err := productOf(c)
	if err != nil {
		return nil, 0, err
	}
	if err := l.nb.replace(ctx, made); err != nil {
		return nil, 0, err
	}
	l.heard.forget()
	at, err := l.plug(ctx, c, made)
	if err != nil {
		return nil, 0, err
	}
	var allowed, denied []connection
	for _, p := range c.Packets {
		if ofItself(p.Packet) {
			continue
		}
		one, err := l.connection(c, made, p)
		if err != nil {
			return nil, 0, err
		}
		if one.verdict.Allowed {
			allowed = append(allowed, one)
		} else {
			denied = append(denied, one)
		}
	}
	all := slices.Concat(allowed, denied)
	if err := l.talk(ctx, at, allowed, denied); err != nil {
		return nil, 0, err
	}
	if err := l.lookedAt(ctx, c, made, at); err != nil {
		return nil, 0, err
	}
	if err := l.unplug(ctx); err != nil {
		return nil, 0, err
	}
	var out []Disagreement
	for _, one := range all {
		if what := l.wrong(one); what != "" {
			out = append(out, Disagreement{Packet: one.packet, Verdict: one.verdict, What: what})
		}
	}
	return out, len(all), nil
}

// connection works out a packet's way.
func (l *Lab) connection(c cases.Case, made product, p cases.Packet) (connection, error) {
	if l.client++; l.client > lastClient {
		l.client = firstClient
	}
	one := connection{packet: p, verdict: c.Judge(p.Packet)}
	var err error
	if one.there, err = made.sendingOf(p, l.client); err != nil {
		return one, err
	}
	if one.back, err = made.answerOf(p.Packet, one.there.egress, l.client); err != nil {
		return one, err
	}
	one.from, one.to, one.home = placeIn(c, p.Packet, one.there.ingress), placeIn(c, p.Packet, one.there.egress), placeIn(c, p.Packet,
		one.back.egress)
	return one, nil
}

// placeIn says where a switch port is. A porthole is on every node: what comes to a pod by it, or leaves, is on the pod's.
func placeIn(c cases.Case, p oracle.Packet, port string) place {
	for _, n := range c.Nodes {
		if port == model.NodePortName(cases.Default, n.Name) {
			return place{n.Name, port}
		}
	}
	nodeOf := func(pod string) string {
		i := slices.IndexFunc(c.Pods, func(of oracle.Pod) bool { return of.Key() == pod })
		return c.Pods[i].Spec.NodeName
	}
	for _, pod := range []string{p.From.Pod, p.To.Pod} {
		if pod != "" && (port == pod || port == model.PortholePortName(p.Network)) {
			return place{nodeOf(pod), port}
		}
	}
	return place{port: port}
}

// talk sends what is to arrive, and answers to it; then what is not to arrive. It waits for the first.
func (l *Lab) talk(ctx context.Context, at map[place]*listener, allowed, denied []connection) error {
	ask := func(one connection) error { return transmit(at[one.from], one.there) }
	missing, err := await(ctx, l, allowed, ask, func(one connection) bool { return l.arrived(one.there, one.to) })
	if err != nil {
		return err
	}
	reached := slices.DeleteFunc(slices.Clone(allowed), func(one connection) bool {
		return slices.ContainsFunc(missing, func(m connection) bool { return m.there == one.there })
	})
	answer := func(one connection) error { return transmit(at[one.to], one.back) }
	if _, err := await(ctx, l, reached, answer, func(one connection) bool { return l.arrived(one.back, one.home) }); err != nil {
		return err
	}
	for _, one := range denied {
		if err := ask(one); err != nil {
			return err
		}
	}
	return nil
}

func transmit(by *listener, s sending) error {
	from, err := net.ParseMAC(s.source)
	if err != nil {
		return fmt.Errorf("send the packet: %w", err)
	}
	to, err := net.ParseMAC(s.nextHop)
	if err != nil {
		return fmt.Errorf("send the packet: %w", err)
	}
	b, err := s.Frame(from, to)
	if err != nil {
		return err
	}
	return by.send(b)
}

func (l *Lab) arrived(s sending, where place) bool {
	return slices.ContainsFunc(l.heard.of(markOf(s.Packet)), func(seen sighting) bool { return seen.place == where })
}

// rounds is how often each port asks, so that what a node has sent to the other is looked at there, too.
const rounds = 3

// lookedAt waits until the nodes have looked at all that was sent: each port asks for its gateway, and a port's frames are
// looked at one after the other. No policy is about ARP.
func (l *Lab) lookedAt(ctx context.Context, c cases.Case, made product, at map[place]*listener) error {
	type question struct {
		place
		frame []byte
		want  int
	}
	for range rounds {
		var questions []question
		for where, by := range at {
			if !isUp(c, where) {
				continue
			}
			own, gateway := neighbours(c, where)
			mac, err := net.ParseMAC(made.ports[where.port])
			if err != nil || !own.IsValid() {
				return fmt.Errorf("ask for the gateway of %s: it has no address of IPv4 (%w)", where, err)
			}
			questions = append(questions, question{where, frame.WhoHas(gateway, mac, own), l.heard.repliesTo(by) + 1})
		}
		missing, err := await(ctx, l, questions, func(q question) error { return at[q.place].send(q.frame) },
			func(q question) bool { return l.heard.repliesTo(at[q.place]) >= q.want })
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return fmt.Errorf("wait until the nodes have looked at all packets: nobody answers %s", missing[0].place)
		}
	}
	return nil
}

// isUp reports whether a port is one that its node serves. A node knows of a porthole if a pod of the Network is there, or,
// in the default Network, the node itself.
func isUp(c cases.Case, at place) bool {
	for _, n := range cases.NetworkNames() {
		if at.port == model.PortholePortName(n) && n != cases.Default {
			return slices.ContainsFunc(c.Pods, func(p oracle.Pod) bool { return p.Network == n && p.Spec.NodeName == at.node })
		}
	}
	return true
}

// neighbours are the IPv4 addresses of whoever is at a place, and of its gateway.
func neighbours(c cases.Case, at place) (own, gateway netip.Addr) {
	for _, n := range cases.NetworkNames() {
		if at.port == model.PortholePortName(n) {
			return model.PortholeAddresses()[0].Addr(), model.EdgeAddresses()[0].Addr()
		}
	}
	network := cases.Default
	if at.port == model.NodePortName(network, at.node) {
		own = cases.NodeAddresses(at.node)[0].Addr()
	}
	for _, pod := range c.Pods {
		if pod.Key() == at.port && pod.Addresses[0].Is4() {
			network, own = pod.Network, pod.Addresses[0]
		}
	}
	subnet, _ := cases.SubnetOf(network, own)
	return own, subnet.Ranges[0].Addr().Next()
}

// wrong says in words what became of a connection that the verdict does not say; nothing if it agrees.
func (l *Lab) wrong(one connection) string {
	there, back := l.heard.of(markOf(one.there.Packet)), l.heard.of(markOf(one.back.Packet))
	if !one.verdict.Allowed {
		if len(there) > 0 {
			return fmt.Sprintf("let through: came out at %s", there[0].place)
		}
		return ""
	}
	asked, answered := one.there.Packet, one.back.Packet
	// A Service's address stands in it only on the client's side.
	asked.To, answered.From = one.back.From, one.there.To
	switch {
	case len(there) == 0:
		return "dropped"
	case there[0] != sighting{one.to, asked} || len(there) > 1:
		return fmt.Sprintf("came out as %v, and should have as %v", there, sighting{one.to, asked})
	case len(back) == 0:
		return "let through, and its answer dropped"
	case back[0] != sighting{one.home, answered} || len(back) > 1:
		return fmt.Sprintf("let through, and its answer came out as %v, and should have as %v", back, sighting{one.home, answered})
	}
	return ""
}
