package agree

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/policy/cases"
)

// Lab is an OVN with the nodes of all cases, and real packets:
//
//	frames -> namespace = br-int of n1 === Geneve === br-int of n2 = namespace -> frames
//
// Every port of a case is a network namespace on the node where it belongs: a pod's, a node's own in the default Network,
// and the portholes of all Networks on both nodes. Each listens to all that comes, so that a packet is also seen where it
// must not come out.
type Lab struct {
	central *ovn.Central
	nb      *northbound
	nodes   map[string]*ovn.Chassis
	// guests are on each node as many as any case needed so far.
	guests map[string][]*listener
	heard  *heard
	// client is the port that the last connection came from. Each has another one, by which its packets are known.
	client uint16
	// patience is how long what should arrive may take.
	patience time.Duration
}

// place is a switch port on a node.
type place struct{ node, port string }

func (p place) String() string { return p.port + " on node " + p.node }

// OpenLab makes a lab of a central that has nothing else to do. Its nodes keep their files below dir.
func OpenLab(ctx context.Context, central *ovn.Central, dir, datapath string) (_ *Lab, err error) {
	l := &Lab{
		central: central, nodes: map[string]*ovn.Chassis{}, guests: map[string][]*listener{}, heard: newHeard(), client: firstClient,
		patience: patience,
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.nb, err = openNorthbound(ctx, central); err != nil {
		return nil, err
	}
	// ovn-controller 25.03 crashes on a southbound database without its first row.
	if _, err := central.SBCtl(ctx, "init"); err != nil {
		return nil, err
	}
	for i, name := range []string{cases.Node1, cases.Node2} {
		home := filepath.Join(dir, name)
		if err := os.Mkdir(home, 0o700); err != nil {
			return nil, fmt.Errorf("make directory of node: %w", err)
		}
		l.nodes[name], err = ovn.StartChassis(ctx, ovn.ChassisOptions{
			Dir: home, Name: name, Southbound: central.SBAddress(), Datapath: datapath, Tunnel: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
		})
		if err != nil {
			return nil, err
		}
	}
	return l, ovn.Link(ctx, l.nodes[cases.Node1], l.nodes[cases.Node2])
}

// Close ends the nodes and the connection to the database.
func (l *Lab) Close() {
	for _, guests := range l.guests {
		for _, g := range guests {
			g.close()
		}
	}
	for _, n := range l.nodes {
		n.Stop()
	}
	if l.nb != nil {
		l.nb.close()
	}
}

// Hurry leaves the lab little patience: to try, many times, what has failed already.
func (l *Lab) Hurry() { l.patience = hurry }

// interfaces are all the ports of a case, by their places.
func (p product) interfaces(c cases.Case) map[place]ovn.Interface {
	out := map[place]ovn.Interface{}
	for _, pod := range c.Pods {
		if pod.Network != "" {
			out[place{pod.Spec.NodeName, pod.Key()}] = ovn.Interface{Port: pod.Key(), UID: string(cases.UID("pod", pod.Key()))}
		}
	}
	for _, node := range c.Nodes {
		own := model.NodePortName(cases.Default, node.Name)
		out[place{node.Name, own}] = ovn.Interface{Port: own}
		for _, network := range cases.NetworkNames() {
			porthole := model.PortholePortName(network)
			out[place{node.Name, porthole}] = ovn.Interface{Port: porthole}
		}
	}
	return out
}

// plug puts a case's ports on their nodes, and waits until these know what to do with packets.
func (l *Lab) plug(ctx context.Context, c cases.Case, made product) (map[place]*listener, error) {
	out := map[place]*listener{}
	wanted := made.interfaces(c)
	for node, chassis := range l.nodes {
		bind, pods := map[*ovn.Guest]ovn.Interface{}, []*ovn.Guest{}
		for at, i := range wanted {
			if at.node != node {
				continue
			}
			g, err := l.guest(ctx, node, len(bind))
			if err != nil {
				return nil, err
			}
			g.move(at)
			bind[g.guest], out[at] = i, g
			if i.UID != "" {
				pods = append(pods, g.guest)
			}
		}
		if err := chassis.Bind(ctx, bind); err != nil {
			return nil, err
		}
		if len(pods) == 0 {
			continue
		}
		if err := chassis.Installed(ctx, pods...); err != nil {
			return nil, fmt.Errorf("plug pods into %s: %w", node, err)
		}
	}
	if _, err := l.central.NBCtl(ctx, "--timeout=60", "--wait=hv", "sync"); err != nil {
		return nil, fmt.Errorf("wait for the nodes: %w", err)
	}
	for _, chassis := range l.nodes {
		// What the datapath decided and remembers of the case before.
		for _, words := range [][]string{{"revalidator/purge"}, {"dpctl/flush-conntrack"}} {
			if _, err := chassis.Ask(ctx, "ovs-vswitchd", words...); err != nil {
				return nil, fmt.Errorf("have a node forget: %w", err)
			}
		}
	}
	return out, nil
}

// guest is the n-th of a node.
func (l *Lab) guest(ctx context.Context, node string, n int) (*listener, error) {
	if n < len(l.guests[node]) {
		return l.guests[node][n], nil
	}
	g, err := l.nodes[node].Plug(ctx, ovn.Interface{Port: "nothing", MAC: "02:00:00:00:00:01"})
	if err != nil {
		return nil, err
	}
	made, err := listen(g, l.heard)
	if err != nil {
		return nil, err
	}
	l.guests[node] = append(l.guests[node], made)
	return made, nil
}

// unplug takes everything off the nodes. What arrives afterwards arrives nowhere.
func (l *Lab) unplug(ctx context.Context) error {
	for _, node := range slices.Sorted(maps.Keys(l.nodes)) {
		var guests []*ovn.Guest
		for _, g := range l.guests[node] {
			guests = append(guests, g.guest)
		}
		if len(guests) == 0 {
			continue
		}
		if err := l.nodes[node].Release(ctx, guests...); err != nil {
			return fmt.Errorf("unplug all from %s: %w", node, err)
		}
	}
	return nil
}
