package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// shared are the flags of database and northd.
type shared struct {
	kubeconfig, namespace, run, certificates, schemas string
	level                                             slog.Level
}

func (s *shared) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: those of the pod)")
	flags.StringVar(&s.namespace, "namespace", "atoll-system", "namespace of the ConfigMap "+central.RecordName)
	flags.StringVar(&s.run, "run", "/run/ovn", "directory of sockets")
	flags.StringVar(&s.certificates, "certificates", "/run/atoll-ovn/central",
		"directory with tls.crt, tls.key and ca.crt; for sb ca.crt has the nodes' CA, too, and central-ca.crt has it not")
	flags.StringVar(&s.schemas, "schemas", "/usr/share/ovn", "directory of OVN's schemas")
	flags.TextVar(&s.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

func (s *shared) store() (central.Store, error) {
	api, err := follow.Connect(s.kubeconfig, "atoll-ovn")
	if err != nil {
		return central.Store{}, err
	}
	return central.Store{Client: api.Kube, Namespace: s.namespace}, nil
}

func (s *shared) programs() central.Programs {
	return central.Programs{Path: func(name string) string { return name }, Schemas: s.schemas}
}

func (s *shared) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: s.level}))
}

func databaseCommand() *cobra.Command {
	s := &shared{}
	o := central.Options{}
	cmd := &cobra.Command{
		Use:       "database nb|sb",
		Short:     "Keeps this node's member of a database's cluster",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{string(central.Northbound), string(central.Southbound)},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := central.ParseKind(args[0])
			if err != nil {
				return err
			}
			if o.Node == "" || !o.Address.IsValid() || o.Address.IsUnspecified() || o.Address.Zone() != "" {
				return fmt.Errorf("--node-name and --address are needed: the node's, as others reach it")
			}
			if o.Size < 1 || o.Size%2 == 0 {
				return fmt.Errorf("--members=%d: an odd number is wanted, for a quorum is more than half", o.Size)
			}
			store, err := s.store()
			if err != nil {
				return err
			}
			o.Kind, o.Run, o.Certificates, o.Programs, o.Log = kind, s.run, s.certificates, s.programs(), s.log().With("database", kind)
			o.MemberNames = certs.MemberPrefix
			return withCertificate(cmd.Context(), certs.KeeperConfig{
				Client: store.Client, Log: o.Log, Signer: certs.SignerCentral, Node: o.Node, Addresses: []netip.Addr{o.Address},
				TrustNodes: kind == central.Southbound, Dir: o.Certificates,
			}, central.NewKeeper(store, o).Run)
		},
	}
	flags := cmd.Flags()
	s.flags(flags)
	flags.StringVar(&o.Node, "node-name", "", "name of this node")
	flags.TextVar(&o.Address, "address", netip.Addr{}, "this node's IP address, at which the others reach it")
	flags.IntVar(&o.Size, "members", 3, "how many members the cluster is to have: 1, 3 or 5")
	flags.StringVar(&o.Data, "data", "/var/lib/atoll/ovn", "directory of databases")
	flags.DurationVar(&o.CompactEvery, "compact-every", 24*time.Hour, "how often this member's file is compacted")
	flags.DurationVar(&o.GoneAfter, "gone-after", 5*time.Minute,
		"how long a node must have no Node object until its server is removed from the cluster")
	return withHealth(cmd, func(args []string) string { return args[0] }, func() *probes { return &probes{run: s.run} })
}
