package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/place"
	"github.com/atoll-net/atoll/test/sandbox/relay"
)

func upCommand(opts *sandbox.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make the sandbox, or find that it runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := sandbox.Up(cmd.Context(), *opts, cmd.OutOrStdout())
			if cmd.Context().Err() != nil {
				return errors.New("interrupted; the next up, or down, removes what was started")
			}
			if err != nil {
				return err
			}
			printHints(cmd, opts, s)
			return nil
		},
	}
	partFlags(cmd, opts)
	cmd.Flags().IntVar(&opts.Nodes, "nodes", sandbox.DefaultNodes, "number of nodes")
	cmd.Flags().BoolVar(&opts.Bare, "bare", false,
		"do not install Atoll: a cluster without a network plugin to install it in, whose nodes have the images of "+
			"Atoll and OVN, and stay NotReady")
	cmd.Flags().StringVar(&opts.Overlay, "overlay", sandbox.OverlayHA,
		"what to install: ha, with three members of each of OVN's databases, or single, with one")
	return cmd
}

func partsCommand(opts *sandbox.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parts",
		Short: "Install and build what a sandbox is made of, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sandbox.Gather(cmd.Context(), *opts, cmd.OutOrStdout())
		},
	}
	partFlags(cmd, opts)
	return cmd
}

func partFlags(cmd *cobra.Command, opts *sandbox.Options) {
	flags := cmd.Flags()
	flags.StringVar(&opts.Cache, "cache", sandbox.DefaultCache, "directory for what is built and downloaded; down leaves it")
	flags.StringVar(&opts.Source, "source", "", "Atoll's source tree (default: the one around this program or the working directory)")
	flags.StringVar(&opts.Bin, "bin", "", "directory of the program atoll, which installs (default: this program's)")
	flags.StringVar(&opts.KubernetesBin, "kubernetes-bin", "", "directory of Kubernetes' programs, instead of building them")
	flags.StringVar(&opts.ContainerdBin, "containerd-bin", "",
		"directory of containerd, ctr and containerd-shim-runc-v2, instead of building them")
	flags.StringVar(&opts.Etcd, "etcd", "", "etcd program, instead of building it")
	flags.StringVar(&opts.Runc, "runc", "", "runc program, instead of building it")
	flags.StringVar(&opts.OVNPrefix, "ovn-prefix", "",
		"directory with OVN and Open vSwitch (/ means installed packages), instead of fetching them")
}

func downCommand(opts *sandbox.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the sandbox and remove everything of it but the cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sandbox.Down(cmd.Context(), *opts, cmd.OutOrStdout())
		},
	}
}

// initCommand is the first process of a place; only up starts it.
func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "init FILE",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return place.Init(cmd.Context(), args[0]) },
	}
}

// bridgesCommand runs on a node all the time.
func bridgesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "bridges ADDRESS",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tunnel, err := netip.ParsePrefix(args[0])
			if err != nil {
				return fmt.Errorf("parse address: %w", err)
			}
			return sandbox.KeepBridges(cmd.Context(), tunnel)
		},
	}
}

// relayCommand runs on the control plane and on every node.
func relayCommand() *cobra.Command {
	var near string
	var through []string
	cmd := &cobra.Command{
		Use:    "relay SOCKET",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(through) == 0 {
				return relay.Serve(cmd.Context(), args[0], relay.Direct)
			}
			prefix, err := netip.ParsePrefix(near)
			if err != nil {
				return fmt.Errorf("parse addresses: %w", err)
			}
			return relay.Serve(cmd.Context(), args[0], relay.Through(prefix, through))
		},
	}
	cmd.Flags().StringVar(&near, "near", "", "addresses to connect to directly")
	cmd.Flags().StringArrayVar(&through, "through", nil, "socket of a relay to connect to all others by; the first that is there counts")
	return cmd
}
