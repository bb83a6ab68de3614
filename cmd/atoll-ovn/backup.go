package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/certs"
)

func backupCommand() *cobra.Command {
	s := &shared{}
	o := central.BackupOptions{Kinds: []central.Kind{central.Northbound, central.Southbound}}
	var node string
	var address netip.Addr
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Writes a file of each central database, and removes old ones",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if node == "" || !address.IsValid() {
				return errors.New("--node-name and --address are needed: the certificate is the node's")
			}
			if o.Dir == "" || o.Keep < 1 {
				return errors.New("--to is needed, and --keep is 1 or more")
			}
			store, err := s.store()
			if err != nil {
				return err
			}
			o.Certificates, o.Programs, o.Log = s.certificates, s.programs(), s.log()
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return withCertificate(ctx, certs.KeeperConfig{
				Client: store.Client, Log: o.Log, Signer: certs.SignerCentral, Node: node, Addresses: []netip.Addr{address}, Dir: s.certificates,
			}, func(ctx context.Context) error { return central.Backup(ctx, store, o) })
		},
	}
	flags := cmd.Flags()
	s.flags(flags)
	flags.StringVar(&node, "node-name", "", "name of this node")
	flags.TextVar(&address, "address", netip.Addr{}, "this node's IP address")
	flags.StringVar(&o.Dir, "to", "", "directory of the backups")
	flags.IntVar(&o.Keep, "keep", 7, "how many of each database are kept")
	flags.DurationVar(&timeout, "timeout", 15*time.Minute, "how long all of it may take")
	return cmd
}
