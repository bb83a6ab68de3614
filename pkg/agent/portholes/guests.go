package portholes

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// guest is a container that needs the porthole of its Network.
type guest struct {
	// iface is its interface, whose link shows that it is still there.
	iface      string
	networkUID string
	doors      []porthole.Pod
	// since orders guests by their coming.
	since uint64
}

// guests are the containers of this node with faces. Requests and sweeps write; it can be made anew from links and pods
// at any time.
type guests struct {
	mu          sync.Mutex
	byContainer map[string]guest
	last        uint64
}

func newGuests() *guests { return &guests{byContainer: map[string]guest{}} }

// put records a container. One that is there already keeps its place in the order.
func (g *guests) put(container, iface string, n attachment.NIC) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.last + 1
	if old, has := g.byContainer[container]; has {
		since = old.since
	} else {
		g.last = since
	}
	g.byContainer[container] = guest{iface: iface, networkUID: n.NetworkUID, doors: n.Doors(), since: since}
}

// remove forgets a container; false when it was not there.
func (g *guests) remove(container string) (guest, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old, has := g.byContainer[container]
	delete(g.byContainer, container)
	return old, has
}

// all is what is recorded, by container.
func (g *guests) all() map[string]guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.byContainer)
}

// networks are the UIDs of the Networks that have guests, sorted.
func (g *guests) networks() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := map[string]bool{}
	for _, guest := range g.byContainer {
		found[guest.networkUID] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// of are the addresses of a Network's guests, each once; false when it has no guests. Two that contradict each other
// cannot both be served: a face belongs to who came first, of all Networks, and so does an own address of its Network.
func (g *guests) of(networkUID string) (doors []porthole.Pod, some bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ordered := slices.SortedFunc(maps.Values(g.byContainer), func(a, b guest) int { return cmp.Compare(a.since, b.since) })
	type own struct {
		networkUID string
		address    netip.Addr
	}
	faces, owns := map[netip.Addr]own{}, map[own]netip.Addr{}
	for _, guest := range ordered {
		some = some || guest.networkUID == networkUID
		for _, door := range guest.doors {
			address := own{guest.networkUID, door.Own}
			holder, faceTaken := faces[door.Face]
			face, ownTaken := owns[address]
			if faceTaken && holder != address || ownTaken && face != door.Face {
				continue
			}
			if !faceTaken && guest.networkUID == networkUID {
				doors = append(doors, door)
			}
			faces[door.Face], owns[address] = address, door.Face
		}
	}
	return doors, some
}
