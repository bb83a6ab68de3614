package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// conflicting says what a user will see of conflicts. The Network is served all the same.
func (n *Network) conflicting() model.Condition {
	texts := n.conflicts[:min(len(n.conflicts), named)]
	message := strings.Join(texts, "; ")
	if more := len(n.conflicts) - len(texts); more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	rest := ". All else works; clients of the infrastructure with addresses of the Network's own are seen as its porthole"
	if n.hangs() {
		rest = ". The Network is served all the same, and nodes route its ranges to its pods"
	}
	return model.Condition{Type: model.ConditionCIDRConflict, Status: true, Reason: model.ReasonOverlapsInfra, Message: message + rest}
}

// findConflicts compares the Networks that changed with the infrastructure, or all if that did.
func (s *Stage) findConflicts() {
	changed := maps.Clone(s.replanned)
	if s.infraChanged {
		changed = map[string]struct{}{}
		for name := range s.networks {
			changed[name] = struct{}{}
		}
	}
	s.allUnserved = s.allUnserved || s.infraChanged
	s.infraChanged = false
	clear(s.replanned)
	for name := range changed {
		n := s.networks[name]
		if n == nil || n.Model == nil {
			continue
		}
		if conflicts := s.conflicts(n); !slices.Equal(conflicts, n.conflicts) {
			n.conflicts = conflicts
			s.unreported.Mark(name)
		}
	}
}

// conflicts say, of the Network's ranges that overlap the infrastructure's, what its pods cannot dial there, and which addresses
// they do not get.
func (s *Stage) conflicts(n *Network) []string {
	if n.Default {
		return nil
	}
	var out []string
	for subnet, r := range n.Layout.Ranges() {
		out = append(out, s.conflictsOf(fmt.Sprintf("%s of subnet %q", r.CIDR, subnet), r.CIDR)...)
		out = append(out, s.servicesWithin(subnet, r)...)
	}
	for _, cidr := range n.Layout.Services {
		if s.clusterIPsWithin(cidr) != "" {
			// It is not served.
			continue
		}
		out = append(out, s.conflictsOf(fmt.Sprintf("service range %s", cidr), cidr)...)
	}
	return out
}

// conflictsOf are those of one range, by what it is called, with all but the cluster's Services.
func (s *Stage) conflictsOf(what string, cidr netip.Prefix) []string {
	var out []string
	for _, taken := range s.infrastructure() {
		if taken.cidr.Overlaps(cidr) {
			out = append(out, fmt.Sprintf("%s overlaps %s: %s", what, taken.what, taken.lost))
		}
	}
	if a, more := s.Cluster.MachinesWithin(cidr); more > 0 {
		holds := fmt.Sprintf("the address %s of a node: pods cannot dial it", a)
		if more > 1 {
			holds = fmt.Sprintf("%d addresses of nodes, such as %s: pods cannot dial them", more, a)
		}
		out = append(out, fmt.Sprintf("%s holds %s", what, holds))
	}
	return out
}

// servicesWithin are the conflicts of a subnet's range with the cluster's Services. Names, the API and Services work there.
func (s *Stage) servicesWithin(subnet string, r compile.Range) []string {
	var out []string
	for _, services := range s.Cluster.Services {
		if !services.Overlaps(r.CIDR) {
			continue
		}
		gets := "pods get no address there"
		if services.Bits() <= r.CIDR.Bits() {
			gets = "pods get only addresses that no Service has"
		}
		out = append(out, fmt.Sprintf("%s of subnet %q overlaps %s, the cluster's own range of Services: %s", r.CIDR, subnet, services, gets))
	}
	for _, key := range s.infraServices() {
		if service := s.Catalog.Service(key); service != nil && slices.Contains(service.ClusterIPs, r.Gateway) {
			out = append(out,
				fmt.Sprintf("the gateway of subnet %q is %s, the address of Service %s: pods cannot dial that, choose other gatewayIPs", subnet,
					r.Gateway, key))
		}
	}
	return out
}

// taken is a range of the infrastructure's.
type taken struct {
	cidr netip.Prefix
	what string
	// lost is what a Network that has it, too, cannot have.
	lost string
}

func (s *Stage) infrastructure() []taken {
	var out []taken
	for _, r := range s.Faces.Ranges() {
		out = append(out, taken{
			r, fmt.Sprintf("%s, the range of faces", r),
			"pods reach each other by their own addresses, and not by faces there",
		})
	}
	if home := s.home(); home != nil {
		for _, r := range home.Layout.Ranges() {
			out = append(out, taken{
				r.CIDR, fmt.Sprintf("%s of Network %q", r.CIDR, home.Name), "pods cannot dial its pods and nodes there",
			})
		}
	}
	return out
}
