package agent

import (
	"context"

	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// followConfig follows the settings of the cluster. What changes takes effect at once: every rule is made from the world as it
// is, and changed in one step, as when a node comes or goes, so that no packet is lost that both settings let pass.
func (a *Agent) followConfig(ctx context.Context, client dynamic.Interface) error {
	config.Follow(ctx, client, a.failed("AtollConfig"), func(s config.Settings) {
		a.log.Info("settings in force", "services", s.Services, "faces", s.Faces, "dns", s.DNS.Addresses)
		a.world.SetInfrastructure(infrastructureOf(s))
		a.flows.Want(s.Flows.On)
		a.world.SetSynced(world.Settings)
		a.sweepSoon()
		a.told.Send()
	})
	return nil
}

func infrastructureOf(s config.Settings) world.Infrastructure {
	return world.Infrastructure{
		DNS: s.DNS.Addresses, Services: s.Services, Faces: s.Faces, Others: s.Infra, Closed: s.Closed, Balancers: s.Balancers,
		Gateways: s.Gateways, Nodes: s.Nodes,
		DefaultSubnet: s.Subnet, Default: s.Network, MaxJoined: s.MaxJoined, MaxConnections: s.Outside,
	}
}
