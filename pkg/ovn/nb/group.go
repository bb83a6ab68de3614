package nb

import "strings"

// groupPrefix begins the name of each Load_Balancer_Group of ours.
const groupPrefix = "atoll.dev/Network/"

// GroupName is the name of the Load_Balancer_Group of a Network. The table has no external_ids: the name says that
// the row is ours, whose it is and with which UID. Names of Networks hold no slash.
func GroupName(network, uid string) string { return groupPrefix + network + "/" + uid }

// Owned implements Row with what the name says; nil when the row is somebody else's.
func (r *LoadBalancerGroup) Owned() map[string]string {
	rest, ours := strings.CutPrefix(r.Name, groupPrefix)
	network, uid, whole := strings.Cut(rest, "/")
	if !ours || !whole || network == "" || uid == "" {
		return nil
	}
	return map[string]string{KeyOwner: NetworkOwner(network).String(), KeyUID: uid, KeyNetwork: network}
}
