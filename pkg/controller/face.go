package controller

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/model"
)

// faceBlock is the size of a node's block of faces, as the number of its bits: 512 addresses, more than a kubelet runs pods.
const faceBlock = 9

// DefaultFaces are the ranges of faces that a cluster has that says nothing else: addresses that are routed nowhere
// outside. (RFC 6598; RFC 4193.)
func DefaultFaces() []string { return []string{"100.64.0.0/10", "fd64:a701::/64"} }

// ParseFaces reads ranges of faces, at most one per IP family.
func ParseFaces(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		if _, err := FaceRange(p); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Addr().Is4() == p.Addr().Is4() }) {
			return nil, fmt.Errorf("%s is a second range of its IP family", p)
		}
		out = append(out, p)
	}
	return out, nil
}

// FaceRange divides a range of faces into a block per node. Its error says what is wrong with the range.
func FaceRange(of netip.Prefix) (*alloc.Blocks, error) { return faceRange(of, faceBlock) }

func faceRange(of netip.Prefix, block int) (*alloc.Blocks, error) {
	bits := of.Addr().BitLen() - block
	// The first part of a range will do that has far more blocks than anybody has nodes.
	if of.IsValid() && bits-of.Bits() > maxFaceBits {
		of = netip.PrefixFrom(of.Addr(), bits-maxFaceBits).Masked()
	}
	return alloc.NewBlocks(of, bits)
}

// maxFaceBits bounds the number of blocks of a range: 2 to this power are more than the nodes of any cluster.
const maxFaceBits = 20

// canFace reports whether a new pod of a Network can get its faces, if it needs any.
func (s *State) canFace(network string, p *pod) bool {
	return !s.needsFaces(s.network(network)) || s.node(p.Node).serves()
}

// needsFaces reports whether the pods of a Network have faces.
func (s *State) needsFaces(n *network) bool { return len(s.faces) > 0 && !s.faceless(n) }

// awaitNode has a pod looked at again when its node changes. It holds nothing meanwhile.
func (s *State) awaitNode(p *pod) {
	s.node(p.Node).pods[p.Key] = struct{}{}
	p.faced = p.Node
}

// face makes the pod's faces part of its attachment: one for each of its addresses. ready is false while its node has
// no block yet. Pods of the default Network have none: they are seen under their own addresses.
func (s *State) face(nw *network, p *pod, a *model.Attachment) (ready bool, problem *model.Problem) {
	if !s.needsFaces(nw) {
		return true, nil
	}
	s.awaitNode(p)
	n := s.node(p.Node)
	var former []netip.Addr
	if p.attachment != nil {
		former = p.attachment.Faces
	}
	if len(former) == 0 && len(p.Assigned) > 0 {
		former = p.Assigned[0].Faces
	}
	if !n.serves() && (len(former) == 0 || len(n.faces) == 0) {
		// Another controller might give the node another block: it must be written first.
		return false, nil
	}
	var faces []netip.Addr
	for i, own := range a.Addresses {
		pool := n.pool(own.Addr().Is4())
		if pool == nil {
			continue
		}
		if i < len(former) && former[i].Is4() == own.Addr().Is4() {
			outcome, other := pool.Keep(former[i], p.Key.String())
			if outcome == alloc.Taken {
				faces = append(faces, former[i])
				continue
			}
			freeAll(n.faces, faces, p)
			return true, &model.Problem{Reason: model.ReasonFaceLost, Message: lostFace(former[i], n, outcome, other)}
		}
		face, ok := pool.Next(p.Key.String())
		if !ok {
			freeAll(n.faces, faces, p)
			return true, noFaces(n, pool)
		}
		faces = append(faces, face)
	}
	if len(faces) == 0 {
		return true, &model.Problem{
			Reason:  model.ReasonNoFaces,
			Message: fmt.Sprintf("the pod's addresses are of an IP family that has no faces: give the controller a range of it (--face-ranges), or Network %q a subnet of the other", nw.name),
		}
	}
	a.Faces = faces
	return true, nil
}

// facesGone says that a new pod of a Network can have no face, before it takes an address; nil when it can.
func (s *State) facesGone(nw *network, p *pod) *model.Problem {
	if !s.needsFaces(nw) {
		return nil
	}
	n := s.node(p.Node)
	for _, pool := range n.faces {
		if pool.Free() == 0 && nw.layout.Has(pool.Prefix().Addr().Is4()) {
			return noFaces(n, pool)
		}
	}
	return nil
}

func noFaces(n *node, pool *alloc.Pool) *model.Problem {
	return &model.Problem{
		Reason:  model.ReasonNoFaces,
		Message: fmt.Sprintf("all faces of node %s (%s) are in use: delete pods there, or let this one go to another node", n.name, pool.Prefix()),
	}
}

// holdFaces has a pod that cannot use what is written on it hold its faces until it can again, or goes.
func (s *State) holdFaces(nw *network, p *pod) {
	held := p.Assigned[0]
	p.attachment = &held
	if len(held.Faces) == 0 || !s.needsFaces(nw) {
		return
	}
	s.awaitNode(p)
	for _, face := range held.Faces {
		if pool := s.node(p.Node).pool(face.Is4()); pool != nil {
			pool.Keep(face, p.Key.String())
		}
	}
}

func lostFace(face netip.Addr, n *node, outcome alloc.Outcome, other string) string {
	if outcome == alloc.InUse {
		return fmt.Sprintf("address %s by which the cluster knows the pod is in use by pod %s: delete the pod to give it another", face, other)
	}
	return fmt.Sprintf("address %s by which the cluster knows the pod is none of node %s: delete the pod to give it another", face, n.name)
}

// unface gives a pod's faces back.
func (s *State) unface(p *pod) {
	n := s.nodes[p.faced]
	if n == nil || p.faced == "" {
		return
	}
	if p.attachment != nil && len(p.attachment.Faces) > 0 {
		freeAll(n.faces, p.attachment.Faces, p)
		s.unfaced[n.name] = struct{}{}
	}
	delete(n.pods, p.Key)
	delete(n.short, p.Key)
	p.faced = ""
	if n.model == nil {
		s.moved[n.name] = struct{}{}
	}
}
