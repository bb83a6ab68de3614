package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
)

// viewEvery is how often views are compared with what they show, however many pods come and go: a namespace's pods are counted for it.
const viewEvery = time.Second

// views are what namespaces see of Networks: of those that admit them, and of those that their pods are in.
type views struct {
	// dirty are to be compared anew; urgent: some may be of a namespace that has lost its right.
	dirty  map[model.ViewKey]struct{}
	urgent bool
	// shown is what the sink was told last, and by Network, so that its changes find their namespaces.
	shown map[model.ViewKey]model.View
	of    map[string]map[string]struct{}
	last  time.Time
	// began: the sink knows that what it was not told of is wanted no more.
	began bool
}

func newViews() views {
	return views{dirty: map[model.ViewKey]struct{}{}, shown: map[model.ViewKey]model.View{}, of: map[string]map[string]struct{}{}}
}

// touchPod: something about the pod has changed in its Network.
func (v *views) touchPod(key model.PodKey, network string) {
	v.dirty[model.ViewKey{Namespace: key.Namespace, Network: network}] = struct{}{}
}

// touchNetwork: something that all who see the Network see.
func (v *views) touchNetwork(name string) {
	for namespace := range v.of[name] {
		v.dirty[model.ViewKey{Namespace: namespace, Network: name}] = struct{}{}
	}
}

// touchViewsOf: a namespace's labels have changed, and with them perhaps what it may use. (Where it has pods it sees by these.)
func (s *State) touchViewsOf(namespace string) {
	for name, n := range s.networks {
		s.touchView(namespace, name, n)
	}
}

// touchViewers: a Network has changed, and perhaps whom it admits.
func (s *State) touchViewers(n *network) {
	for namespace := range s.namespaces {
		s.touchView(namespace, n.name, n)
	}
	s.views.touchNetwork(n.name)
	s.views.urgent = true
}

// touchView touches what a namespace sees, or is to see: of all pairs of namespace and Network these are few.
func (s *State) touchView(namespace, name string, n *network) {
	key := model.ViewKey{Namespace: namespace, Network: name}
	ns := s.namespaces[namespace]
	_, shown := s.views.shown[key]
	if shown || ns != nil && n.model != nil && n.admits(*ns) {
		s.views.dirty[key], s.views.urgent = struct{}{}, true
	}
}

// due is when views are compared next; the zero time when nothing has changed.
func (v *views) due() time.Time {
	if len(v.dirty) == 0 {
		return time.Time{}
	}
	return v.last.Add(viewEvery)
}

// view hands out the views that have changed. The first call names all that are wanted.
func (s *State) view() {
	v, moment := &s.views, s.knowledge.now
	if v.began && !v.urgent && (len(v.dirty) == 0 || moment.Before(v.due())) {
		return
	}
	changed := map[model.ViewKey]*model.View{}
	states := map[string]model.View{}
	for key := range v.dirty {
		old, had := v.shown[key]
		n := s.networks[key.Network]
		if !s.sees(key.Namespace, n) {
			if had {
				changed[key] = nil
				delete(v.shown, key)
				drop(v.of, key.Network, key.Namespace)
			}
			continue
		}
		if _, known := states[key.Network]; !known {
			states[key.Network] = n.view(s.knowledge.away)
		}
		now := states[key.Network]
		s.viewPods(key, n, &now)
		if had && reflect.DeepEqual(old, now) {
			continue
		}
		changed[key], v.shown[key] = &now, now
		add(v.of, key.Network, key.Namespace)
	}
	clear(v.dirty)
	v.last, v.urgent = moment, false
	if len(changed) > 0 || !v.began {
		v.began = true
		s.sink.WriteViews(changed)
	}
}

// sees reports whether a namespace sees a Network: it may use it, or has a pod there, whose address it keeps.
func (s *State) sees(namespace string, n *network) bool {
	ns := s.namespaces[namespace]
	if ns == nil || n == nil || n.model == nil {
		return false
	}
	if n.admits(*ns) {
		return true
	}
	for key := range s.byNamespace[namespace] {
		if _, attached := n.attached[key]; attached {
			return true
		}
	}
	return false
}

// view is what everybody sees who sees the Network.
func (n *network) view(away time.Time) model.View {
	status := n.status(nil, away)
	out := model.View{
		Type: n.model.Type, Phase: status.Phase, Conflicts: slices.Clone(n.conflicts[:min(len(n.conflicts), named)]),
		Egress: n.model.Egress, Infra: n.model.Infra, DNS: n.model.DNS, ServiceCIDRs: n.vips.served,
	}
	for _, c := range status.Conditions {
		if c.Type == model.ConditionReady {
			out.Reason, out.Message = c.Reason, c.Message
		}
	}
	if !ownMatter(out.Reason) {
		out.Message = fmt.Sprintf("Network %q is not served as its owner asks: whoever runs the cluster finds out why with kubectl describe network", n.name)
	}
	for _, subnet := range n.layout.Subnets {
		for _, r := range subnet.Ranges {
			out.Subnets = append(out.Subnets, model.ViewedSubnet{Name: subnet.Name, CIDR: r.CIDR, Gateway: r.Gateway})
		}
	}
	return out
}

// ownMatter reports whether the words that come with a reason are about nobody but the Network: what the database refuses, or another
// Network has, may name others.
func ownMatter(reason string) bool {
	return slices.Contains([]string{
		"Ready", "Pending", "Terminating", model.ReasonDatabaseUnreachable, model.ReasonSubnetInvalid, model.ReasonServiceCIDRInvalid,
	}, reason)
}

// viewPods adds what is the namespace's own.
func (s *State) viewPods(key model.ViewKey, n *network, out *model.View) {
	out.Subnets = slices.Clone(out.Subnets)
	holding := map[model.PodKey]*pod{}
	for pod := range s.byNamespace[key.Namespace] {
		p := s.pods[pod]
		if p.network != key.Network {
			continue
		}
		if p.problem != nil {
			out.Waiting++
		}
		if _, attached := n.attached[pod]; !attached || p.attachment == nil {
			continue
		}
		out.Pods++
		holding[pod] = p
		for _, a := range addressesOf(*p.attachment) {
			for i := range out.Subnets {
				if out.Subnets[i].CIDR.Contains(a) {
					out.Subnets[i].Used++
				}
			}
		}
	}
	for _, pod := range first(holding, model.MaxViewed) {
		a := holding[pod].attachment
		out.Addresses = append(out.Addresses, model.ViewedPod{Name: pod.Name, Subnet: a.Subnet, Addresses: addressesOf(*a)})
	}
}

// stateOf is what of a Network's status changes views beside its spec: not how many pods others have in it.
func stateOf(status model.NetworkStatus) string {
	words := []string{string(status.Phase)}
	for _, c := range status.Conditions {
		if c.Type == model.ConditionReady || c.Type == model.ConditionCIDRConflict {
			words = append(words, c.Reason, c.Message)
		}
	}
	return strings.Join(words, " ")
}
