package netdev

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// boundsTable is the nftables table with a chain for each interface that is bounded, named after it.
const boundsTable = "atoll-bounds"

// ErrNoBounds wraps the error of a kernel that cannot bound what pods send.
var ErrNoBounds = errors.New("this kernel cannot bound what pods send (nftables, family netdev)")

// Bounds are what an interface of a pod may send a second; 0 is any number. What is more is dropped.
type Bounds struct {
	// Broadcasts are frames to all and to groups: one is copied to each port of the subnet's, on each node.
	Broadcasts uint32
	// Requests are packets that Open vSwitch and ovn-controller answer one by one, or may have to: ARP, ICMP of both families
	// with neighbour discovery, and what a router may not forward any more. All that is not IP is counted here.
	Requests uint32
	// Packets are all.
	Packets uint32
}

// Bound is one of them.
type Bound string

// The bounds there are.
const (
	BoundBroadcasts Bound = "broadcast"
	BoundRequests   Bound = "request"
	BoundPackets    Bound = "packet"
)

// of is what a bound is.
func (b *Bounds) of(which Bound) *uint32 {
	switch which {
	case BoundBroadcasts:
		return &b.Broadcasts
	case BoundRequests:
		return &b.Requests
	default:
		return &b.Packets
	}
}

// burst is how many a second's number may come at once, after silence. An interface that begins to speak with a whole subnet
// asks for all of it.
func burst(which Bound, rate uint32) uint32 {
	switch which {
	case BoundBroadcasts:
		return 5 * rate
	case BoundRequests:
		return 2 * rate
	default:
		return max(rate/4, 1)
	}
}

// Post is where an interface's packets are judged.
type Post struct {
	// Device is the interface whose packets they are, Netns the path of its network namespace; empty: the node's own.
	Device, Netns string
}

// NodePost is the node's end of a pair. What comes in there is judged before Open vSwitch takes it from the kernel's datapath, and
// nobody in the pod can change that. The userspace datapath does not see it: it has a copy of each frame that came in, judged or not.
func NodePost(owner Owner) Post { return Post{Device: owner.HostName()} }

// PodPost is the pod's end, for the userspace datapath: what is judged there has not left the pod.
func PodPost(owner Owner, netns string) Post { return Post{Device: owner.Interface, Netns: netns} }

// hook is where the kernel asks, and when.
func (p Post) hook() *nftables.ChainHook {
	if p.Netns == "" {
		return nftables.ChainHookIngress
	}
	return nftables.ChainHookEgress
}

func (p Post) table() *nftables.Table {
	return &nftables.Table{Name: boundsTable, Family: nftables.TableFamilyNetdev}
}

func (p Post) chain() *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return &nftables.Chain{
		Name: p.Device, Table: p.table(), Type: nftables.ChainTypeFilter, Device: p.Device,
		Hooknum: p.hook(), Priority: nftables.ChainPriorityFilter, Policy: &accept,
	}
}

// inside runs f in the namespace of the post, on a thread of its own where that is not the node's.
func (p Post) inside(f func() error) error {
	if p.Netns == "" {
		return f()
	}
	if err := ns.WithNetNSPath(p.Netns, func(ns.NetNS) error { return f() }); err != nil {
		return fmt.Errorf("in network namespace %s: %w", p.Netns, err)
	}
	return nil
}

// Set bounds what the interface sends, in one transaction: there is no moment without bounds, if it had some. What was counted is
// counted from 0 again.
func (p Post) Set(b Bounds) error {
	err := p.inside(func() error {
		conn, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		conn.AddTable(p.table())
		chain := conn.AddChain(p.chain())
		conn.FlushChain(chain)
		for _, rule := range b.rules() {
			rule.Table, rule.Chain = chain.Table, chain
			conn.AddRule(rule)
		}
		return conn.Flush()
	})
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ErrNoBounds, err)
	}
	if err != nil {
		return fmt.Errorf("bound what %s sends: %w", p.Device, err)
	}
	return nil
}

// ForgetBounds removes what is left of the node's interfaces that have gone. Kernels before 6.16 do so themselves.
func ForgetBounds() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return fmt.Errorf("list chains of nftables: %w", err)
	}
	// After the chains: who makes an interface bounds it later.
	links, err := netlinksafe.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	there := make(map[string]bool, len(links))
	for _, link := range links {
		there[link.Attrs().Name] = true
	}
	for _, chain := range chains {
		if chain.Table.Name == boundsTable && !there[chain.Name] {
			conn.DelChain(chain)
		}
	}
	// The kernel may have removed it meanwhile.
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove bounds of links that have gone: %w", err)
	}
	return nil
}
