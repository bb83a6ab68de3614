package portholes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/agent/world"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// Review names what Sweep would change of the portholes and of the node's own side, and how many portholes it has checked. It
// changes nothing.
func (p *Portholes) Review(ctx context.Context) (out []api.NodeDifference, looked int, err error) {
	review, err := p.Keeper.Review()
	if err != nil {
		return nil, 0, err
	}
	defer review.Close()
	if out, err = p.reviewHost(ctx, review); err != nil {
		return nil, 0, fmt.Errorf("look at the node's side: %w", err)
	}
	for _, uid := range p.guests.networks() {
		if err := ctx.Err(); err != nil {
			return nil, 0, fmt.Errorf("%d portholes looked at, and no more: %w", looked, err)
		}
		found, err := p.reviewOne(ctx, review, uid)
		if err != nil {
			return nil, 0, fmt.Errorf("look at the porthole of Network %s: %w", uid, err)
		}
		out = append(out, found...)
		looked++
	}
	strays, err := p.strays(ctx)
	return append(out, strays...), looked, err
}

// reviewHost looks at the node's own side.
func (p *Portholes) reviewHost(ctx context.Context, review *porthole.Review) (out []api.NodeDifference, err error) {
	release, err := p.turns.Acquire(ctx, hostTurn)
	if err != nil {
		return nil, fmt.Errorf("wait for another change of the node's side: %w", err)
	}
	defer release()
	host, network := p.World.Host()
	if host.MTU, host.Offload, err = p.Fabric(ctx); err != nil {
		return nil, err
	}
	if out, err = review.Host(host); err != nil {
		return nil, err
	}
	ports := p.hostPorts(host, network)
	for _, port := range ports {
		found, err := p.portDiffers(ctx, port)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for _, name := range []string{porthole.NodePort, porthole.EdgePort} {
		_, has, err := p.Switch.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		if has && len(ports) == 0 {
			out = append(out, api.NodeDifference{Kind: api.NodeInterfaceSurplus, Object: "Interface " + name})
		}
	}
	return ownedBy(nb.NodeOwner(p.Node), out), nil
}

// reviewOne looks at the porthole of a Network.
func (p *Portholes) reviewOne(ctx context.Context, review *porthole.Review, networkUID string) (out []api.NodeDifference, err error) {
	release, err := p.turns.Acquire(ctx, string(porthole.IDOf(networkUID)))
	if err != nil {
		return nil, fmt.Errorf("wait for another change of the porthole: %w", err)
	}
	defer release()
	doors, wanted := p.guests.of(networkUID)
	spec, err := p.World.Porthole(networkUID)
	if !wanted || errors.Is(err, world.ErrNoNetwork) {
		return nil, nil // If there is one, it is a stray.
	}
	if err != nil {
		return nil, err
	}
	spec.Pods = doors
	if spec.MTU, spec.Offload, err = p.Fabric(ctx); err != nil {
		return nil, err
	}
	if out, err = review.Porthole(spec); err != nil {
		return nil, err
	}
	port, err := p.portDiffers(ctx, portOf(spec))
	return ownedBy(nb.NetworkOwner(spec.Network), append(out, port...)), err
}

// ownedBy gives differences their owner.
func ownedBy(owner nb.Owner, all []api.NodeDifference) []api.NodeDifference {
	for i := range all {
		all[i].Owner = owner.String()
	}
	return all
}

// portDiffers compares a port with that of its name on the bridge.
func (p *Portholes) portDiffers(ctx context.Context, want vswitch.Port) ([]api.NodeDifference, error) {
	have, found, err := p.Switch.Find(ctx, want.Name)
	if err != nil {
		return nil, err
	}
	if !found {
		return []api.NodeDifference{{Kind: api.NodeInterfaceMissing, Object: "Interface " + want.Name, Want: "iface-id=" + want.IfaceID}}, nil
	}
	return PortDifferences(have, want), nil
}

// PortDifferences are what a port on the bridge says otherwise than another one of its name, and why ovs-vswitchd does not have it.
func PortDifferences(have, want vswitch.Port) (out []api.NodeDifference) {
	object := "Interface " + want.Name
	if should, is := have.Unlike(want); len(should) > 0 {
		out = append(out, api.NodeDifference{
			Kind: api.NodeInterfaceDiffers, Object: object, Want: strings.Join(should, " "), Have: strings.Join(is, " "),
		})
	}
	if have.Problem != "" {
		out = append(out, api.NodeDifference{Kind: api.NodeInterfaceDiffers, Object: object + " error", Have: have.Problem})
	}
	return out
}

// strays are the portholes that no guest needs, and those whose Network has gone.
func (p *Portholes) strays(ctx context.Context) (out []api.NodeDifference, err error) {
	ids, err := p.all(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		release, err := p.turns.Acquire(ctx, string(id))
		if err != nil {
			return nil, fmt.Errorf("wait for another change of the porthole: %w", err)
		}
		stray, err := p.isStray(ctx, id)
		release()
		if err != nil {
			return nil, err
		}
		if stray {
			out = append(out, api.NodeDifference{Kind: api.NodeObjectSurplus, Object: "porthole " + id.Name()})
		}
	}
	return ownedBy(nb.NodeOwner(p.Node), out), nil
}
