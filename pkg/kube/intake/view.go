package intake

import (
	"strings"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// View is the status of the NetworkView that shows v.
func View(v model.View) v1alpha1.NetworkViewStatus {
	out := v1alpha1.NetworkViewStatus{
		Type: v1alpha1.NetworkType(v.Type), Phase: v1alpha1.NetworkPhase(v.Phase), Reason: v.Reason, Message: v.Message,
		Conflicts: v.Conflicts, Egress: string(v.Egress), InfraAccess: string(v.Infra), DNS: string(v.DNS),
		Pods: v.Pods, Waiting: v.Waiting,
	}
	var ranges []string
	for _, s := range v.Subnets {
		ranges = append(ranges, s.CIDR.String())
		shown := v1alpha1.ViewedSubnet{Name: s.Name, CIDR: s.CIDR.String(), Used: s.Used}
		if s.Gateway.IsValid() {
			shown.Gateway = s.Gateway.String()
		}
		out.Subnets = append(out.Subnets, shown)
	}
	out.Ranges = strings.Join(ranges, " ")
	for _, c := range v.ServiceCIDRs {
		out.ServiceCIDRs = append(out.ServiceCIDRs, c.String())
	}
	for _, p := range v.Addresses {
		shown := v1alpha1.ViewedPod{Pod: p.Name, Subnet: p.Subnet}
		for _, a := range p.Addresses {
			shown.Addresses = append(shown.Addresses, a.String())
		}
		out.Addresses = append(out.Addresses, shown)
	}
	return out
}
