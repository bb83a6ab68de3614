package compile

import (
	"net/netip"
	"strconv"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// addressedName is the name of the offer by which other Networks dial a Network's pods by their own addresses.
const addressedName = "addresses"

// addressed stands for a Network in the rows by which others dial its pods by their own addresses, though no routers are joined.
func addressed(l Layout) Layout {
	return Layout{Name: l.Name + ":" + addressedName, UID: l.UID + "/" + addressedName, offered: true}
}

// addressBalancers gives the load balancers that make faces of own addresses in the switches of consumers: the same pairs as in
// faceBalancers, turned round, divided as those are. They open nothing. What a consumer's pod has dialled goes on as if it had
// dialled the face, and OVN and the nodes judge faces.
func addressBalancers(l Layout, owner nb.Owner) nb.Facts {
	var facts nb.Facts
	offer := addressed(l)
	for part := range faceParts {
		lb := &nb.LoadBalancer{
			UUID: addressesUUID(l, part), Name: offer.Name + ":" + strconv.Itoa(part), ExternalIDs: ids(owner, l.UID, l.Name),
			// As with a face, an address that goes from one pod to the next takes no connection along.
			Options: map[string]string{"ct_flush": "true"},
		}
		facts.Rows = append(facts.Rows, lb)
		facts.Members = append(facts.Members, groupRef(offer).Holds(nb.ColumnLoadBalancers, lb.UUID))
	}
	return facts
}

// AddressPlaces are the pairs of an interface's own addresses in the Network l, by which pods of other Networks dial them: not of
// one that is outside of the ranges that these others know, or that means something else to them.
func AddressPlaces(l Layout, a model.Attachment, known func(own netip.Addr) bool) []nb.Member {
	var out []nb.Member
	for _, face := range a.Faces {
		own, ok := addressOf(a.Addresses, face.Is4())
		if !ok || !known(own) {
			continue
		}
		in := nb.Ref{Table: nb.TableLoadBalancer, UUID: addressesUUID(l, facePart(face))}
		out = append(out, in.Holds(nb.ColumnVips, nb.Pair(own.String(), face.String())))
	}
	return out
}

func addressesUUID(l Layout, part int) string {
	return nb.UUID(nb.TableLoadBalancer, l.UID+"/"+addressedName+"/"+strconv.Itoa(part))
}
