package ledger

import (
	"net/netip"
	"reflect"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Subnets holds the addresses of Networks' subnets: which pod or node has which, and which pods wait for one.
type Subnets struct {
	// Freed tells of Networks where addresses have come free.
	Freed *pass.Topic[string]
	// Waiting are the pods that wait for an address, by their Networks.
	Waiting pass.Index[string, model.PodKey]

	networks map[string]*subnets
}

// subnets are those of a Network.
type subnets struct {
	// uid is that of the Network: one that is made anew under its name has given nothing yet.
	uid    string
	served []compile.SubnetLayout
	// pools are those of each subnet, in the order of its ranges.
	pools map[string][]*Pool
}

// NewSubnets makes the books of Networks without subnets. Stage is the last in which addresses come free.
func NewSubnets(stage pass.Stage) *Subnets {
	return &Subnets{Freed: pass.NewTopic[string](stage), Waiting: pass.Index[string, model.PodKey]{}, networks: map[string]*subnets{}}
}

// Serve says which subnets a Network serves. Whoever has an address of a range that stays keeps it, though it be reserved now.
func (s *Subnets) Serve(network, uid string, served []compile.SubnetLayout) {
	old := s.networks[network]
	if old != nil && old.uid == uid && reflect.DeepEqual(old.served, served) {
		return
	}
	now := &subnets{uid: uid, served: served, pools: map[string][]*Pool{}}
	for _, subnet := range served {
		for _, r := range subnet.Ranges {
			// Whoever planned them has refused what no pool can serve.
			if pool, err := NewPool(r.CIDR, r.Given()); err == nil {
				now.pools[subnet.Name] = append(now.pools[subnet.Name], pool)
			}
		}
	}
	if old != nil && old.uid == uid {
		now.takeOver(old)
	}
	s.networks[network] = now
}

// takeOver carries over who has which address.
func (s *subnets) takeOver(old *subnets) {
	for subnet, pools := range old.pools {
		for _, before := range pools {
			for _, pool := range s.pools[subnet] {
				if pool.Prefix().Overlaps(before.Prefix()) {
					before.Each(func(a netip.Addr, holder nb.Owner) { pool.Keep(a, holder) })
				}
			}
		}
	}
}

// Drop forgets a Network that has gone, and who had addresses of it.
func (s *Subnets) Drop(network string) { delete(s.networks, network) }

// Pools are those of a subnet, in the order of its ranges; none when it is not served.
func (s *Subnets) Pools(network, subnet string) []*Pool {
	if n := s.networks[network]; n != nil {
		return n.pools[subnet]
	}
	return nil
}

// Release gives addresses back, and tells of it.
func (s *Subnets) Release(network, subnet string, addresses []netip.Addr, holder nb.Owner) {
	Release(s.Pools(network, subnet), addresses, holder)
	s.Freed.Changed(network)
}

// Release gives addresses back of which nobody was told.
func Release(pools []*Pool, addresses []netip.Addr, holder nb.Owner) {
	for _, a := range addresses {
		for _, pool := range pools {
			pool.Release(a, holder)
		}
	}
}
