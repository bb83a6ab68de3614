package attach

import (
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// DeletePorts takes the rows of pods that have lost their port. They go before other rows come, which may have their addresses.
func (s *Stage) DeletePorts() {
	for key := range s.ports.Marked() {
		if p := s.pods[key]; p == nil || !p.plugged {
			s.Graph.Delete(nb.PodOwner(key.Namespace, key.Name))
			s.ports.Drop(key)
		}
	}
}

// WritePorts writes the rows of pods' ports, and their places in port groups as these are now.
func (s *Stage) WritePorts() {
	for key := range s.ports.Take() {
		s.writePort(s.pods[key])
	}
}

func (s *Stage) writePort(p *pod) {
	n := s.Networks.Get(p.network)
	facts := compile.Pod(n.Layout, *p.Pod, *p.attachment, s.mostConnections(p, n))
	port := facts.Rows[0].ID()
	for _, g := range s.Policies.GroupsOf(p.Key, *p.attachment) {
		facts.Members = append(facts.Members, compile.GroupPlace(g, port))
	}
	facts.Members = append(facts.Members, s.Policies.RemotePlacesOf(p.Key, *p.attachment)...)
	facts.Members = append(facts.Members, s.Networks.GuardPlaces(n, p.Key.Namespace, port, p.attachment.Faces)...)
	facts.Members = append(facts.Members, s.Networks.PeerPlaces(n, *p.attachment)...)
	s.Graph.Set(nb.PodOwner(p.Key.Namespace, p.Key.Name), facts)
}

// mostConnections bounds how much of its node's table of connections a pod uses, which is for all Networks. Infrastructure in the
// default Network is not bounded: whoever may connect to it could use up its share, and it serves others.
func (s *Stage) mostConnections(p *pod, n *networks.Network) uint32 {
	if n.Default && s.Cluster.IsInfrastructure(p.Key.Namespace) {
		return 0
	}
	return s.Cluster.Connections
}

// Committed says that the database holds the rows of a pod.
func (s *Stage) Committed(owner nb.Owner) {
	key, _ := ledger.PodOf(owner)
	p := s.pods[key]
	if p == nil {
		return
	}
	delete(s.unwritten, key)
	denied := s.Members(p.network).Denied
	if _, was := denied[key]; was {
		delete(denied, key)
		s.MembersChanged.Changed(p.network)
	}
}

// Refused says why the database does not accept the rows of a pod.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	key, _ := ledger.PodOf(owner)
	delete(s.unwritten, key)
	p := s.pods[key]
	if p == nil {
		return
	}
	s.Sink.Event(p.Ref(), problem)
	if p.network != "" {
		s.book(p.network).Denied[key] = problem
		s.MembersChanged.Changed(p.network)
	}
}

// overdueAfter is how long a new pod's rows may wait for the database before the pod is told.
const overdueAfter = 4 * time.Second

// TellWaiting tells new pods that have waited for the database for some time what they wait for.
func (s *Stage) TellWaiting(now time.Time) {
	var late []model.PodKey
	for key, since := range s.unwritten {
		if now.Sub(since) >= overdueAfter {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, model.PodKey.Compare)
	for _, key := range late {
		delete(s.unwritten, key)
		if p := s.pods[key]; p != nil {
			s.Sink.Event(p.Ref(), s.overdue())
		}
	}
}

// overdue is why a pod's rows are not in the database.
func (s *Stage) overdue() model.Problem {
	if !s.Database.Away.IsZero() {
		return model.Problemf(model.ReasonDatabaseUnreachable, "the pod has its addresses and waits for its port: %s", s.Database.NoAnswer())
	}
	return model.Problemf(model.ReasonDatabaseBehind,
		"the pod has its addresses and waits for its port: OVN's northbound database has not stored it yet; if this lasts, "+
			"see the atoll-controller's log")
}
