package southbound

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// ends judges where chassis say that they take tunnels. It remembers since when nodes have had their addresses.
type ends struct {
	settle time.Duration
	had    map[string]addresses
}

// addresses are those of a node.
type addresses struct {
	all []netip.Addr
	// reported: the node's agent has said at which it takes tunnels.
	reported bool
	since    time.Time
}

// falseEnd is a chassis that has what is another node's.
type falseEnd struct {
	chassis string
	// other is the other node, empty if it is of no node. Address is what the chassis has of it; none if it is the host name.
	other   string
	address netip.Addr
	// doubtful: it may be its own.
	doubtful bool
}

// machines is what is known of nodes, by name.
type machines struct {
	nodes   map[string]*model.Node
	reports map[string]*model.NodeReport
}

// addressesOf are those of the Node, and those at which its agent says that it takes tunnels; none of a Node that has none.
func (m machines) addressesOf(name string) (all []netip.Addr, reported bool) {
	node := m.nodes[name]
	if node == nil || len(node.Addresses) == 0 {
		return nil, false
	}
	all = slices.Clone(node.Addresses)
	if report := m.reports[name]; report != nil && report.NodeUID == node.UID {
		all, reported = append(all, report.Tunnels...), true
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), reported
}

// observe remembers since when nodes have had the addresses that they have.
func (e *ends) observe(m machines, now time.Time) {
	have := make(map[string]addresses, len(m.nodes))
	for name := range m.nodes {
		all, reported := m.addressesOf(name)
		before, known := e.had[name]
		since := now
		if known && before.reported == reported && slices.Equal(before.all, all) {
			since = before.since
		}
		have[name] = addresses{all: all, reported: reported, since: since}
	}
	e.had = have
}

// judge gives the chassis that have what is another node's. A node is judged only when it is known, and when it and the other have had
// their addresses for some time:
// one whose address has just changed is not. An address that both claim may be either's.
func (e *ends) judge(chassis []ovsdb.TunnelEnds, m machines, now time.Time) []falseEnd {
	e.observe(m, now)
	settled := func(a addresses) bool { return now.Sub(a.since) >= e.settle }
	holders := map[netip.Addr][]string{}
	for _, name := range slices.Sorted(maps.Keys(e.had)) {
		for _, a := range e.had[name].all {
			if settled(e.had[name]) {
				holders[a] = append(holders[a], name)
			}
		}
	}
	var out []falseEnd
	for _, c := range chassis {
		own, known := e.had[c.Name]
		if !known {
			continue // It goes when it has had no Node for long enough.
		}
		// ovn-northd takes a chassis for that of a node by its host name, while the node's own is away.
		if m.nodes[c.Hostname] != nil && c.Hostname != c.Name {
			out = append(out, falseEnd{chassis: c.Name, other: c.Hostname})
			continue
		}
		if len(own.all) == 0 || !settled(own) {
			continue
		}
		if end, is := own.falseEnd(c, holders); is {
			out = append(out, end)
		}
	}
	return out
}

// falseEnd is the first tunnel end of a chassis that is not its node's own alone; one that is certainly another's comes before others.
func (a addresses) falseEnd(c ovsdb.TunnelEnds, holders map[netip.Addr][]string) (out falseEnd, is bool) {
	for _, address := range c.Addresses {
		if !address.IsValid() {
			return falseEnd{chassis: c.Name}, true
		}
		i := slices.IndexFunc(holders[address], func(name string) bool { return name != c.Name })
		if i < 0 {
			continue
		}
		// Without its agent's report nobody knows whether a node takes tunnels in a network of their own.
		doubtful := !a.reported || slices.Contains(a.all, address)
		if !is || !doubtful {
			out, is = falseEnd{chassis: c.Name, other: holders[address][i], address: address, doubtful: doubtful}, true
		}
		if !doubtful {
			return out, true
		}
	}
	return out, is
}

// judge deletes chassis that have what is another node's.
func (c *Claims) judge(ctx context.Context, session *ovsdb.Claims) error {
	ctx, cancel := context.WithTimeout(ctx, claimsTime)
	defer cancel()
	var m machines
	var listed bool
	if m.nodes, m.reports, listed = c.Machines(); !listed {
		return nil
	}
	chassis := session.Chassis()
	found := c.ends.judge(chassis, m, time.Now())
	c.Metrics.begin(chassis)
	for _, end := range found {
		if end.doubtful {
			c.Metrics.doubtful.WithLabelValues(end.chassis).Set(1)
			if c.says(saying{"doubtful", end.chassis}, time.Now()) {
				c.Log.Warn("two nodes claim the address of a tunnel end", "chassis", end.chassis, "address", end.address, "other", end.other)
			}
			continue
		}
		if err := c.delete(ctx, session, end); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a chassis, unless its Node has got the address meanwhile. An honest node's ovn-controller makes its own anew.
func (c *Claims) delete(ctx context.Context, session *ovsdb.Claims, end falseEnd) error {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, end.chassis, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", end.chassis, err)
	}
	if slices.Contains(intake.Node(node).Addresses, end.address) {
		return nil
	}
	if err := session.Delete(ctx, end.chassis); err != nil {
		return err
	}
	c.Metrics.deleted.WithLabelValues(end.chassis).Inc()
	if !c.says(saying{"deleted", end.chassis}, time.Now()) {
		return nil
	}
	c.Log.Warn("chassis deleted: it has what is another node's", "chassis", end.chassis, "why", end.String())
	if err := tellDeleted(ctx, c.Kube, end.chassis, corev1.EventTypeWarning, end.String()); err != nil {
		c.Log.Warn("no Event", "error", err)
	}
	return nil
}

// String says it to people.
func (f falseEnd) String() string {
	const gone = "it is deleted from OVN's southbound database"
	switch {
	case f.address.IsValid():
		return fmt.Sprintf("the chassis of node %s takes tunnels at %s, which is an address of node %s: %s", f.chassis, f.address, f.other, gone)
	case f.other == "":
		return fmt.Sprintf("the chassis of node %s takes tunnels at what is no address: %s", f.chassis, gone)
	}
	return fmt.Sprintf("the chassis of node %s has the host name of node %s: %s", f.chassis, f.other, gone)
}
