package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// noteFormer has a Network's subnets looked at that it does not list any more.
func (s *State) noteFormer(n *network) {
	if len(n.layout.Listed()) < len(n.layout.Subnets) {
		s.former[n.name] = struct{}{}
	} else {
		n.leaving = nil
	}
}

// closeFormer takes subnets away that Networks do not list any more and whose last pod has gone, and notes why the others are
// still served. Pods with addresses have been looked at before.
func (s *State) closeFormer() {
	for name := range s.former {
		n := s.networks[name]
		if n == nil || n.model == nil {
			delete(s.former, name)
			continue
		}
		users := map[string][]model.PodKey{}
		for key := range n.attached {
			if p := s.pods[key]; p != nil && p.attachment != nil {
				if subnet, _ := n.layout.Subnet(p.attachment.Subnet); subnet.Former {
					users[subnet.Name] = append(users[subnet.Name], key)
				}
			}
		}
		before := len(n.layout.Subnets)
		n.layout.Subnets = slices.DeleteFunc(slices.Clone(n.layout.Subnets), func(subnet compile.SubnetLayout) bool {
			return subnet.Former && len(users[subnet.Name]) == 0
		})
		if len(n.layout.Subnets) != before {
			n.placed, n.gates = false, nil
			s.touched[name], s.replanned[name], s.vips.networks[name] = struct{}{}, struct{}{}, struct{}{}
			for subnet := range n.pools {
				if _, served := n.layout.Subnet(subnet); !served {
					delete(n.pools, subnet)
				}
			}
		}
		s.sayFormer(n, users)
		if len(users) == 0 {
			delete(s.former, name)
		}
	}
}

// sayFormer notes which pods keep subnets that are not listed any more; the Network's owner is told once.
func (s *State) sayFormer(n *network, users map[string][]model.PodKey) {
	var leaving []model.Problem
	for _, subnet := range n.layout.Subnets {
		if pods := users[subnet.Name]; subnet.Former {
			slices.SortFunc(pods, model.PodKey.Compare)
			var texts []string
			for _, key := range pods[:min(len(pods), named)] {
				texts = append(texts, key.String())
			}
			message := fmt.Sprintf("subnet %s is not listed any more and still served, since pods have addresses of it: %s must go first: %s",
				names([]compile.SubnetLayout{subnet}), count(len(pods), "pod"), strings.Join(texts, ", "))
			if more := len(pods) - len(texts); more > 0 {
				message += fmt.Sprintf(" and %d more", more)
			}
			leaving = append(leaving, model.Problem{Reason: model.ReasonSubnetInUse, Message: message})
		}
	}
	if slices.Equal(n.leaving, leaving) {
		return
	}
	if len(n.leaving) == 0 {
		s.sink.NetworkEvent(n.name, n.model.UID, leaving[0])
	}
	n.leaving = leaving
	s.touched[n.name] = struct{}{}
}
