package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/agent"
)

// reachFlags say what portholes lead to, and what they keep pods from.
type reachFlags struct {
	dns                                        []string
	services, faces, others, closed, balancers []string
	defaultSubnet                              string
	maxConnections                             uint32
}

func (r *reachFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&r.dns, "cluster-dns", nil, "addresses of the cluster's DNS, as kubelet gives them to pods, at which Networks are answered (default: they are not)")
	flags.StringSliceVar(&r.services, "service-cidrs", nil, "ranges of Services' addresses, which Networks reach with direct access only")
	flags.StringSliceVar(&r.others, "infra-cidrs", nil, "further ranges that Networks reach with direct access only")
	flags.StringSliceVar(&r.closed, "closed-cidrs", nil, "ranges that no Network reaches, whatever access it has: tunnels, OVN's databases and the control plane, where they are on no node")
	flags.StringSliceVar(&r.balancers, "load-balancer-cidrs", nil, "ranges of load balancers' addresses that kube-proxy may serve to pods of flat Networks")
	flags.StringSliceVar(&r.faces, "face-ranges", []string{"100.64.0.0/10", "fd64:a701::/64"}, "ranges of the faces of pods, as the controller has them")
	flags.StringVar(&r.defaultSubnet, "default-subnet", "10.128.0.0/14", "CIDR of a Network that lists no subnet, as the controller has it")
	flags.Uint32Var(&r.maxConnections, "max-pod-connections", 16384, "how many connections a pod may have at a time to what is outside its Network; more are refused (0: any number)")
}

func (r *reachFlags) parse() (agent.Infrastructure, error) {
	out := agent.Infrastructure{MaxConnections: r.maxConnections}
	for _, text := range r.dns {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return out, fmt.Errorf("--cluster-dns: %w", err)
		}
		out.DNS = append(out.DNS, address)
	}
	for _, list := range []struct {
		flag  string
		texts []string
		to    *[]netip.Prefix
	}{{"--service-cidrs", r.services, &out.Services}, {"--infra-cidrs", r.others, &out.Others}, {"--closed-cidrs", r.closed, &out.Closed}, {"--load-balancer-cidrs", r.balancers, &out.Balancers}, {"--face-ranges", r.faces, &out.Faces}} {
		for _, text := range list.texts {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return out, fmt.Errorf("%s: %w", list.flag, err)
			}
			*list.to = append(*list.to, prefix.Masked())
		}
	}
	var err error
	if out.DefaultSubnet, err = netip.ParsePrefix(r.defaultSubnet); err != nil {
		return out, fmt.Errorf("--default-subnet: %w", err)
	}
	return out, nil
}
