package networks

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// noteFormer notes a Network with subnets that are no longer in its spec: closeFormer closes them.
func (s *Stage) noteFormer(n *Network) {
	if len(n.Layout.Listed()) < len(n.Layout.Subnets) {
		s.former[n.Name] = struct{}{}
	} else {
		n.leaving = nil
	}
}

// closeFormer takes subnets away that Networks do not list any more and whose last pod has gone, and notes why the others are
// still served. Pods with addresses have been looked at before.
func (s *Stage) closeFormer() {
	for name := range s.former {
		n := s.networks[name]
		if n == nil || n.Model == nil {
			delete(s.former, name)
			continue
		}
		users := map[string][]model.PodKey{}
		for key := range s.Pods.Members(name).Attached {
			if a := s.Pods.Attachment(key); a != nil {
				if subnet, _ := n.Layout.Subnet(a.Subnet); subnet.Former {
					users[subnet.Name] = append(users[subnet.Name], key)
				}
			}
		}
		before := len(n.Layout.Subnets)
		n.Layout.Subnets = slices.DeleteFunc(slices.Clone(n.Layout.Subnets), func(subnet compile.SubnetLayout) bool {
			return subnet.Former && len(users[subnet.Name]) == 0
		})
		if len(n.Layout.Subnets) != before {
			n.routed = false
			s.budget.spend(n.Model.Tenant)
			s.touch(name)
			s.replanned[name] = struct{}{}
			s.unserved.Mark(name)
			s.Subnets.Serve(name, n.Model.UID, n.Layout.Subnets)
		}
		s.sayFormer(n, users)
		if len(users) == 0 {
			delete(s.former, name)
		}
	}
}

// sayFormer notes which pods keep subnets that are not listed any more; the Network's owner is told once.
func (s *Stage) sayFormer(n *Network, users map[string][]model.PodKey) {
	var leaving []model.Problem
	for _, subnet := range n.Layout.Subnets {
		if pods := users[subnet.Name]; subnet.Former {
			slices.SortFunc(pods, model.PodKey.Compare)
			leaving = append(leaving, model.Problemf(model.ReasonSubnetInUse,
				"subnet %s is not listed any more and still served, since pods have addresses of it: %s",
				Describe([]compile.SubnetLayout{subnet}), mustGo(pods[:min(len(pods), named)], len(pods))))
		}
	}
	if slices.Equal(n.leaving, leaving) {
		return
	}
	if len(n.leaving) == 0 {
		s.Sink.Event(n.Model.Ref(), leaving[0])
	}
	n.leaving = leaving
	s.unreported.Mark(n.Name)
}
