package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/porthole"
)

// dnsPort is where DNS servers are asked (RFC 1035).
const dnsPort = 53

// names answer the DNS questions of pods with faces, in their portholes. A nil names answers nobody.
type names struct {
	directory *dns.Directory
	node      *dns.Node
	// unread counts the kinds of objects that have not been read for the first time.
	unread atomic.Int32
}

// newNames prepares the servers; nil when the cluster has no address at which pods ask. close ends them.
func newNames(infra Infrastructure, resolvConf string, registry prometheus.Registerer, log *slog.Logger) (*names, error) {
	if len(infra.DNS) == 0 {
		return nil, nil //nolint:nilnil // no names are no error, and every method bears it
	}
	metrics, err := dns.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics of DNS: %w", err)
	}
	directory := dns.NewDirectory(infra.Domain, infra.DNS)
	return &names{
		directory: directory,
		node: dns.NewNode(dns.Config{
			Directory: directory, Resolvers: dns.NewResolvers(resolvConf, infra.DNS), Metrics: metrics, Log: log,
		}),
	}, nil
}

func (n *names) close() {
	if n != nil {
		n.node.Close()
	}
}

// serveNames has the pods of a porthole answered, or not, as its Network asks.
func (a *Agent) serveNames(ctx context.Context, id porthole.ID, spec porthole.Spec) error {
	if a.names == nil {
		return nil
	}
	network := a.world.network(spec.UID)
	if len(spec.DNS) == 0 || network == nil {
		a.names.node.Stop(string(id))
		return nil
	}
	place := dns.Place{Namespace: id.NetnsPath()}
	for _, address := range spec.DNS {
		place.Addresses = append(place.Addresses, netip.AddrPortFrom(address, dnsPort))
	}
	return a.names.node.Serve(ctx, string(id), network, place)
}

// stopNames ends the server of a porthole that goes: its sockets would keep the namespace.
func (a *Agent) stopNames(id porthole.ID) {
	if a.names != nil {
		a.names.node.Stop(string(id))
	}
}
