package attach

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// verdict is what is decided about a pod. The zero value is that it is in no Network.
type verdict struct {
	// network is the one it belongs to, whether it may attach or not.
	network string
	// attachment is its interface, whose addresses it holds; nil when it has none.
	attachment *model.Attachment
	// faced is the node whose faces it holds or waits for; empty when it needs none.
	faced string
	// counted: it is one of the Network's pods, since it holds addresses of it.
	counted bool
	// plugged: the interface has its port.
	plugged bool
	// problem is why not; nil while all is well or its namespace is not known yet.
	problem *model.Problem
}

// stranger reports whether the pod is nothing to the Network that it names: the Network does not exist or does not admit it, or the
// pod waits for its node. A stranger is told so itself, and the Network is not: anybody may name any Network.
func (v verdict) stranger() bool {
	return v.network != "" && v.attachment == nil && (v.problem == nil || v.problem.Reason == model.ReasonNetworkNotFound)
}

// at is what a verdict says of a pod in one Network.
func (v verdict) at(network string) verdict {
	if v.network != network {
		return verdict{}
	}
	return v
}

// settle puts a verdict about a pod in force. What differs from the verdict before decides who is told.
func (s *Stage) settle(p *pod, now verdict) {
	old := p.verdict
	p.verdict = now
	s.Subnets.Waiting.Drop(old.network, p.Key)
	s.Faces.Waiting.Drop(old.faced, p.Key)
	if old.attachment != nil && now.attachment == nil {
		s.giveBack(p, old)
	}
	s.await(p, old.faced)
	s.enter(p, old.network, old)
	if now.network != old.network {
		s.enter(p, now.network, old)
	}
	if now.plugged != old.plugged {
		s.plug(p)
	}
	if now.plugged || old.plugged {
		s.PortChanged.Changed(p.Key)
	}
	if now.plugged && !p.told(p.Pod) {
		s.Sink.WriteAttachments(p.Key, p.UID, []model.Attachment{*now.attachment})
	}
	if said := old.at(now.network).problem; now.problem != nil && (said == nil || *said != *now.problem) {
		s.Sink.Event(p.Ref(), *now.problem)
	}
}

// giveBack takes from a pod the addresses and faces that it had.
func (s *Stage) giveBack(p *pod, old verdict) {
	s.Sink.Forget(p.Key)
	had := old.attachment
	if old.faced != "" && len(had.Faces) > 0 {
		s.Faces.Release(old.faced, had.Faces, p.Key)
		s.Catalog.Free(had.Faces, s.freed(p))
	}
	addresses := addressesOf(*had)
	s.Subnets.Release(old.network, had.Subnet, addresses, ledger.Pod(p.Key))
	s.Catalog.Free(addresses, s.freed(p))
}

// await queues a pod to be judged again when its node changes, and when what it lacks comes free.
func (s *Stage) await(p *pod, oldNode string) {
	if oldNode != p.faced {
		s.onNode.Drop(oldNode, p.Key)
	}
	if p.faced != "" {
		s.onNode.Add(p.faced, p.Key)
	}
	if p.problem == nil {
		return
	}
	switch p.problem.Reason {
	case model.ReasonSubnetFull, model.ReasonAddressInUse:
		s.Subnets.Waiting.Add(p.network, p.Key)
	case model.ReasonNoFaces, model.ReasonFaceLost:
		s.Faces.Waiting.Add(p.faced, p.Key)
	}
}

// enter brings the book of a Network in line with what a pod is to it, and tells of what differs from the verdict before.
func (s *Stage) enter(p *pod, network string, old verdict) {
	if network == "" {
		return
	}
	was, is := old.at(network), p.at(network)
	changed := s.book(network).enter(p, is)
	s.closeBook(network)
	if changed {
		s.MembersChanged.Changed(network)
	}
	if changed || was.network != is.network || (was.problem == nil) != (is.problem == nil) {
		s.Changed.Changed(Place{p.Key, network})
	}
}

// enter reports whether the Network says something else of its pods by what is entered.
func (b *book) enter(p *pod, is verdict) bool {
	failing, stranger := is.problem, is.stranger()
	if stranger {
		failing = nil
	}
	put(b.strangers, p.Key, member(stranger))
	attached := put(b.Attached, p.Key, member(is.counted))
	failed := put(b.Failing, p.Key, failing)
	denied := !is.plugged && put(b.Denied, p.Key, nil)
	_, was := b.Beyond[p.Key.Namespace][p.Key]
	beyond := is.counted && p.Beyond
	if beyond {
		b.Beyond.Add(p.Key.Namespace, p.Key)
	} else {
		b.Beyond.Drop(p.Key.Namespace, p.Key)
	}
	// Whether the namespace of a pod in Beyond is infrastructure, may have changed.
	return attached || failed || denied || was || beyond
}

// member is what stands for a member in a set; nil for none.
func member(is bool) *struct{} {
	if !is {
		return nil
	}
	return &struct{}{}
}

// put enters a pod in a map, or with nil takes it out. It reports whether the map differs by that.
func put[V comparable](m map[model.PodKey]V, key model.PodKey, v *V) bool {
	old, had := m[key]
	if v == nil {
		delete(m, key)
		return had
	}
	m[key] = *v
	return !had || old != *v
}

// plug tells of a pod that gets its port, or loses it.
func (s *Stage) plug(p *pod) {
	s.Plugged.Changed(p.Key)
	delete(s.unwritten, p.Key)
	if !p.plugged {
		return
	}
	for _, face := range p.attachment.Faces {
		s.FaceGiven.Changed(face)
	}
	if len(p.Assigned) == 0 {
		s.unwritten[p.Key] = s.Database.Now
	}
}
