package main

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/test/sandbox"
)

// forwardCommand is for programs that listen in the control plane's network, such as atoll ui, whose page a browser of the
// machine is to show.
func forwardCommand(opts *sandbox.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "forward PORT",
		Short: "Forward a port of this machine's loopback interface to the control plane's",
		Long: `Forward 127.0.0.1:PORT of this machine to 127.0.0.1:PORT of the control plane, until Ctrl-C.

Every user of this machine reaches that port. The program that listens on the control plane sees root as its client.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil || port == 0 {
				return fmt.Errorf("parse port %q: write a number from 1 to 65535", args[0])
			}
			s, err := sandbox.Open(opts.State)
			if err != nil {
				return err
			}
			address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)).String()
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return fmt.Errorf("forward port: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Forwarding %s to the control plane's. Ctrl-C ends it.\n", address)
			return s.Forward(cmd.Context(), listener, address)
		},
	}
}
