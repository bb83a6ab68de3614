// Package defaults makes the controller's settings of the cluster's.
package defaults

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// Of are the settings by which the controller decides.
func Of(s config.Settings) decide.Defaults {
	return decide.Defaults{
		Network: s.Network, Subnet: s.Subnet,
		Faces: s.Faces, Services: s.Services, Gateways: s.Gateways,
		Others: slices.Concat(s.Infra, s.Closed, s.Balancers, s.Nodes),
		DNS:    s.DNS.Service, NameServers: s.DNS.Addresses, Infrastructure: s.InfraNamespaces, Connections: s.Inside, MaxJoined: s.MaxJoined,
		TenantNetwork: s.TenantNetwork,
	}
}
