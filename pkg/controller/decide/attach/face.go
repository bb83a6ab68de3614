package attach

import (
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// needsFaces reports whether the pods of a Network have faces.
func (s *Stage) needsFaces(n *networks.Network) bool {
	return n != nil && s.Faces.Any() && !n.Faceless()
}

// face makes the pod's faces part of its attachment: one for each of its addresses. ready is false while its node has
// no block yet. Pods of the default Network have none: they are seen under their own addresses.
func (s *Stage) face(nw *networks.Network, p *pod, a *model.Attachment) (ready bool, problem *model.Problem) {
	if !s.needsFaces(nw) {
		return true, nil
	}
	var former []netip.Addr
	if p.attachment != nil {
		former = p.attachment.Faces
	}
	if len(former) == 0 && len(p.Assigned) > 0 {
		former = p.Assigned[0].Faces
	}
	if !s.Nodes.Serves(p.Node) && (len(former) == 0 || len(s.Faces.Pools(p.Node)) == 0) {
		// Another controller might give the node another block: it must be written first.
		return false, nil
	}
	var faces []netip.Addr
	for i, own := range a.Addresses {
		pool := s.Faces.Pool(p.Node, own.Addr().Is4())
		if pool == nil {
			continue
		}
		if i < len(former) && former[i].Is4() == own.Addr().Is4() {
			outcome, other := pool.Keep(former[i], ledger.Pod(p.Key))
			if outcome == alloc.Taken {
				faces = append(faces, former[i])
				continue
			}
			ledger.Release(s.Faces.Pools(p.Node), faces, ledger.Pod(p.Key))
			return true, &model.Problem{Reason: model.ReasonFaceLost, Message: lostFace(former[i], p.Node, outcome, other)}
		}
		face, ok := s.Spare.Next(pool, ledger.Pod(p.Key), nil)
		if !ok {
			ledger.Release(s.Faces.Pools(p.Node), faces, ledger.Pod(p.Key))
			return true, noFaces(p.Node, pool)
		}
		faces = append(faces, face)
	}
	if len(faces) == 0 {
		return true, new(model.Problemf(model.ReasonNoFaces,
			"the pod's addresses are of an IP family that has no faces: give the AtollConfig a range of it (faceCIDRs), or "+
				"Network %q a subnet of the other", nw.Name))
	}
	a.Faces = faces
	return true, nil
}

// facesGone says that a new pod of a Network can have no face, before it takes an address; nil when it can.
func (s *Stage) facesGone(nw *networks.Network, p *pod) *model.Problem {
	if !s.needsFaces(nw) {
		return nil
	}
	for _, pool := range s.Faces.Pools(p.Node) {
		if pool.Free() == 0 && nw.Layout.Has(pool.Prefix().Addr().Is4()) {
			return noFaces(p.Node, pool)
		}
	}
	return nil
}

func noFaces(node string, pool *ledger.Pool) *model.Problem {
	return new(model.Problemf(model.ReasonNoFaces,
		"all faces of node %s (%s) are in use: delete pods there, or let this one go to another node", node, pool.Prefix()))
}

// holdFaces has a pod that cannot use what is written on it hold its faces until it can again, or goes.
func (s *Stage) holdFaces(nw *networks.Network, p *pod, written model.Attachment) {
	if !s.needsFaces(nw) {
		return
	}
	for _, face := range written.Faces {
		if pool := s.Faces.Pool(p.Node, face.Is4()); pool != nil {
			pool.Keep(face, ledger.Pod(p.Key))
		}
	}
}

func lostFace(face netip.Addr, node string, outcome alloc.Outcome, other nb.Owner) string {
	if outcome == alloc.InUse {
		return fmt.Sprintf("address %s by which the cluster knows the pod is in use by %s: delete the pod to give it another", face,
			ledger.Describe(other))
	}
	return fmt.Sprintf("address %s by which the cluster knows the pod is none of node %s: delete the pod to give it another", face, node)
}
