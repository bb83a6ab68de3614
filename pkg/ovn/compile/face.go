package compile

import (
	"net/netip"
	"strconv"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// faceParts is among how many load balancers a Network's faces are divided: ovn-northd compiles all of a load balancer anew
// when one of its addresses changes. With 10,000 pods in a Network one load balancer took it 198 ms for each pod, 16 of them 61
// ms, one for each pod 57 ms, and a pod without a face 29 ms (25.03); with 1,000 pods 11, 3, 5 and 2 ms. Each is a
// row of every Network.
const faceParts = 4

// faceBalancers gives the load balancers by which a Network's pods reach each other's faces: whoever reads a pod's address from the
// Kubernetes API can dial it. Each face is one pair of a map, which the pod owns.
func faceBalancers(l Layout) nb.Facts {
	var facts nb.Facts
	if !l.Faces {
		return facts
	}
	for part := range faceParts {
		lb := &nb.LoadBalancer{
			UUID: facesUUID(l, part), Name: l.Name + ":faces:" + strconv.Itoa(part), ExternalIDs: idsOf(l),
			// A face that goes from one pod to the next takes no connection along. (ovn-nb(5), since 23.06.)
			Options: map[string]string{"ct_flush": "true"},
		}
		facts.Rows = append(facts.Rows, lb)
		facts.Members = append(facts.Members, groupRef(l).Holds(nb.ColumnLoadBalancers, lb.UUID))
	}
	return facts
}

// facesOfPod are the pairs of an interface's faces: not of one that is an address of the Network's own, which may be another
// pod's there.
func facesOfPod(l Layout, a model.Attachment) []nb.Member {
	var out []nb.Member
	for _, face := range a.Faces {
		own, ok := addressOf(a.Addresses, face.Is4())
		if !ok || !l.Faces || l.Means(face) {
			continue
		}
		in := nb.Ref{Table: nb.TableLoadBalancer, UUID: facesUUID(l, facePart(face))}
		out = append(out, in.Holds(nb.ColumnVips, nb.Pair(face.String(), own.String())))
	}
	return out
}

// facePart is the load balancer that a face is in.
func facePart(face netip.Addr) int {
	octets := face.AsSlice()
	return int(octets[len(octets)-1]) % faceParts
}

func facesUUID(l Layout, part int) string {
	return nb.UUID(nb.TableLoadBalancer, l.UID+"/faces/"+strconv.Itoa(part))
}
