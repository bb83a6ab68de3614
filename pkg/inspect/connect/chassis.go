package connect

import (
	"context"
	"log/slog"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Chassis are the names and hosts of all chassis that OVN's southbound database has, read by way of the API server. kubeconfig
// says how to reach that; empty: as kubectl does.
func Chassis(ctx context.Context, kubeconfig string) ([]string, error) {
	tunnel, err := OpenTunnel(ctx, TunnelQuery{Kubeconfig: kubeconfig, Database: api.DatabaseSouthbound})
	if err != nil {
		return nil, err
	}
	defer tunnel.Close()
	table, err := ovsdb.OpenChassis(ctx, ovsdb.Config{Addresses: []string{tunnel.Address()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer table.Close()
	all, err := table.List(ctx)
	var names []string
	for _, c := range all {
		names = append(names, c.Name, c.Hostname)
	}
	return names, err
}
