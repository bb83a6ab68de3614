//go:build e2e

package hostile

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/ovn"
)

// trails are what ovn-trace says of a path's packets, by the addresses that are dialled: the switch ports where they come out in the sender's Network, other than the sender's, and, of what a
// porthole brings into another Network, by "client address", those where it comes out there.
type trails map[string][]string

// tracedAtOnce is how many paths one tracer is asked about: it can be asked so many times about connections.
const tracedAtOnce = 150

// outputs finds where a packet comes out.
var outputs = regexp.MustCompile(`output\("([^"]+)"\)`)

// becomes is the step by which a porthole says as whom a packet comes into a Network.
var becomes = regexp.MustCompile(`^the face \S+ becomes the own address (\S+); the client is (\S+)$`)

// rowsOf are the MAC addresses of ports, by their names.
type macs map[string]string

func portMACs(t *testing.T) macs {
	t.Helper()
	out := macs{}
	for _, row := range env.NB.Rows(t) {
		switch row := row.(type) {
		case *nb.LogicalSwitchPort:
			if len(row.Addresses) > 0 {
				out[row.Name], _, _ = strings.Cut(row.Addresses[0], " ")
			}
		case *nb.LogicalRouterPort:
			out[row.Name] = row.MAC
		}
	}
	return out
}

// traceAll asks ovn-trace about paths, as the southbound database is now.
func traceAll(t *testing.T, world between.World, all []*explained) error {
	t.Helper()
	ports := portMACs(t)
	for chunk := range slices.Chunk(all, tracedAtOnce) {
		tracer, err := ovn.TraceAt(t.Context(), env.Box.SBAddress(), filepath.Join(t.TempDir(), "trace.ctl"), "new")
		if err != nil {
			return err
		}
		for _, e := range chunk {
			if e.exits, err = e.traced(world, ports, tracer); err != nil {
				tracer.Stop()
				return err
			}
		}
		tracer.Stop()
	}
	return nil
}

// traced are the trails of a path.
func (e *explained) traced(world between.World, ports macs, tracer *ovn.Tracer) (trails, error) {
	out := trails{}
	from := world.Pods[e.from]
	for _, w := range e.says.Ways {
		at, err := netip.ParseAddrPort(w.Dialled)
		if err != nil || slices.Contains(from.Own, at.Addr()) {
			continue
		}
		in := from.Namespace + "/" + from.Name
		hop, there := e.neighbour(world, ports, at.Addr())
		if there && out[at.String()] == nil {
			if out[at.String()], err = e.ask(tracer, in, ports[in], hop, ofFamily(from.Own, at.Addr()), at); err != nil {
				return nil, err
			}
		}
		// The second leg: from the porthole into the other Network.
		i := slices.IndexFunc(w.There, func(h inspect.Hop) bool { return becomes.MatchString(h.What) })
		if i < 0 {
			continue
		}
		words := becomes.FindStringSubmatch(w.There[i].What)
		own, err := netip.ParseAddr(words[1])
		if err != nil {
			return nil, err
		}
		client, err := netip.ParseAddr(words[2])
		if err != nil {
			return nil, err
		}
		porthole, edge := model.PortholePortName(w.There[i].Network), w.There[i].Network+":edge"
		if out[words[2]+" "+words[1]], err = e.ask(tracer, porthole, ports[porthole], ports[edge], client, netip.AddrPortFrom(own, at.Port())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func ofFamily(all []netip.Addr, like netip.Addr) netip.Addr {
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() == like.Is4() })
	if i < 0 {
		return netip.Addr{}
	}
	return all[i]
}

// neighbour is the MAC address that the sender's packets to an address go to; false when it finds none, and sends nothing.
func (e *explained) neighbour(world between.World, ports macs, to netip.Addr) (string, bool) {
	from := world.Pods[e.from]
	for _, n := range world.Networks {
		if n.Name != from.Network || !slices.ContainsFunc(n.Plan.Subnet, func(r netip.Prefix) bool { return r.Contains(to) }) {
			continue
		}
		for _, p := range world.Pods {
			if p.Network == from.Network && slices.Contains(p.Own, to) {
				return ports[p.Namespace+"/"+p.Name], true
			}
		}
		return "", false
	}
	mac, there := ports[from.Network+"/a:gateway"]
	return mac, there
}

// ask is where a packet comes out, sorted.
func (e *explained) ask(tracer *ovn.Tracer, in, source, hop string, from netip.Addr, to netip.AddrPort) ([]string, error) {
	if source == "" || hop == "" {
		return nil, fmt.Errorf("port %s has the MAC address %q, and its next hop %q", in, source, hop)
	}
	family, protocol := "ip4", "tcp"
	if to.Addr().Is6() {
		family = "ip6"
	}
	if e.protocol == wire.UDP {
		protocol = "udp"
	}
	said, err := tracer.Ask(fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s && %s.src == 40000 && %s.dst == %d",
		in, source, hop, family, from, family, to.Addr(), protocol, protocol, protocol, to.Port()))
	if err != nil {
		return nil, err
	}
	ports := []string{}
	for _, found := range outputs.FindAllStringSubmatch(said, -1) {
		// What is refused is answered to who has sent it.
		if found[1] != in && !slices.Contains(ports, found[1]) {
			ports = append(ports, found[1])
		}
	}
	slices.Sort(ports)
	return ports, nil
}

// judgeTrace compares what explain says with what ovn-trace says; empty: it agrees.
func (e *explained) judgeTrace(world between.World) string {
	from := world.Pods[e.from]
	// Of several endpoints ovn-trace takes one.
	may := map[string][]string{}
	for _, w := range e.says.Ways {
		to := strings.TrimPrefix(w.To, "pod ")
		leaves := slices.ContainsFunc(w.There, func(h inspect.Hop) bool {
			return h.Layer == inspect.LayerRouter && strings.HasSuffix(h.What, "to the porthole on the pod's own node")
		})
		switch {
		case leaves:
			to = model.PortholePortName(from.Network)
		case !w.Reached:
			to = ""
		}
		may[w.Dialled] = append(may[w.Dialled], to)
		for _, h := range w.There {
			words := becomes.FindStringSubmatch(h.What)
			if words == nil {
				continue
			}
			exits, asked := e.exits[words[2]+" "+words[1]]
			arrives := slices.Equal(exits, []string{strings.TrimPrefix(w.To, "pod ")})
			if !asked || w.Reached != arrives || !w.Reached && len(exits) > 0 {
				return fmt.Sprintf("from the porthole of %s ovn-trace has it come out at %q (asked: %t)", h.Network, exits, asked)
			}
		}
	}
	for dialled, want := range may {
		exits, asked := e.exits[dialled]
		if asked && !slices.Contains(want, strings.Join(exits, " and ")) {
			return fmt.Sprintf("ovn-trace has what is sent to %s come out at %q, and not at one of %q", dialled, exits, want)
		}
	}
	return ""
}
