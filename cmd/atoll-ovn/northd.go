package main

import (
	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/daemons/central"
)

func northdCommand() *cobra.Command {
	s := &shared{}
	cmd := &cobra.Command{
		Use:   "northd",
		Short: "Runs ovn-northd on the databases of the record: active, or ready to take over",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := s.store()
			if err != nil {
				return err
			}
			// The certificate is the northbound database's member's, which keeps it.
			return central.RunNorthd(cmd.Context(), store, central.NorthdOptions{
				Run: s.run, Certificates: s.certificates, Programs: s.programs(), Log: s.log(),
			})
		},
	}
	s.flags(cmd.Flags())
	return withHealth(cmd, always("northd"), func() *probes { return &probes{run: s.run} })
}
