package world

import (
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// peers know who of the Networks reaches whom. The rule goes by names, as their owners do, and portholes by UIDs.
type peers struct {
	rule *compatible.Networks
	// uids are those of the Networks that the rule knows, by name.
	uids map[string]string
}

// newPeers are those of some Networks.
func newPeers(infra Infrastructure, networks map[string]*model.Network) *peers {
	p := &peers{
		rule: compatible.New(compatible.Settings{
			Faces: infra.Faces, DefaultSubnet: infra.DefaultSubnet, MaxJoined: infra.MaxJoined, Default: infra.Default,
			Taken: slices.Concat(infra.Services, infra.Gateways, infra.Others, infra.Closed, infra.Balancers, infra.Nodes),
		}),
		uids: map[string]string{},
	}
	// Of two that have one name, which are there until the watch has told of the end of one, the result must not be another each time.
	for _, uid := range slices.Sorted(maps.Keys(networks)) {
		p.set(networks[uid])
	}
	return p
}

// set takes a Network as it is now. One that was made anew under its name takes the place of the last one.
func (p *peers) set(n *model.Network) {
	p.uids[n.Name] = n.UID
	p.rule.Set(n.Name, n)
}

// drop takes out one that has gone, unless another one has its name.
func (p *peers) drop(n *model.Network) {
	if p.uids[n.Name] == n.UID {
		delete(p.uids, n.Name)
		p.rule.Set(n.Name, nil)
	}
}

// providers are those of a Network, by UID.
func (p *peers) providers(n *model.Network) (uids []string) {
	if p.uids[n.Name] != n.UID {
		return nil
	}
	for _, provider := range p.rule.Providers(n.Name) {
		uids = append(uids, p.uids[provider])
	}
	return uids
}

// addressed are those of them whose pods it dials by their own addresses though no routers are joined, by UID.
func (p *peers) addressed(n *model.Network) (uids []string) {
	if p.uids[n.Name] != n.UID {
		return nil
	}
	for _, provider := range p.rule.Addressed(n.Name) {
		uids = append(uids, p.uids[provider])
	}
	return uids
}

// ranged are those of them whose Services it dials by addresses of their own ranges, by UID.
func (p *peers) ranged(n *model.Network) (uids []string) {
	if p.uids[n.Name] != n.UID {
		return nil
	}
	for _, provider := range p.rule.Ranged(n.Name) {
		uids = append(uids, p.uids[provider])
	}
	return uids
}

// isProvider reports whether a Network has consumers.
func (p *peers) isProvider(n *model.Network) bool {
	return p.uids[n.Name] == n.UID && len(p.rule.Consumers(n.Name)) > 0
}

// pairs are all consumers, each with its providers.
func (p *peers) pairs() []porthole.Compatible {
	var out []porthole.Compatible
	for name, uid := range p.uids {
		for _, provider := range p.rule.Providers(name) {
			out = append(out, porthole.Compatible{Consumer: uid, Provider: p.uids[provider]})
		}
	}
	return out
}
