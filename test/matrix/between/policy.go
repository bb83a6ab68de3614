package between

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Policy is a NetworkPolicy of a scene.
type Policy = netv1.NetworkPolicy

// drawPolicy draws a policy of any namespace: who may send to its pods, or whom they may send to. Its peers are pods of its own
// namespace, of another one, or of all.
func drawPolicy(r *rand.Rand, i int, networks []Network) Policy {
	app := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"web", "db"}[r.IntN(2)]}}
	}
	p := Policy{ObjectMeta: metav1.ObjectMeta{Namespace: networks[r.IntN(len(networks))].Name, Name: fmt.Sprintf("drawn-%d", i)}}
	p.Spec.PodSelector = *app()
	var peers []netv1.NetworkPolicyPeer
	for range 1 + r.IntN(3) {
		var peer netv1.NetworkPolicyPeer
		kind := r.IntN(4)
		if kind < 2 {
			name := networks[r.IntN(len(networks))].Name
			peer.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
		}
		if kind == 2 {
			peer.NamespaceSelector = &metav1.LabelSelector{}
		}
		if kind > 0 {
			peer.PodSelector = app()
		}
		peers = append(peers, peer)
	}
	var ports []netv1.NetworkPolicyPort
	if r.IntN(3) == 0 {
		protocol, port := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}[r.IntN(2)], intstr.FromInt32(wire.DefaultPort)
		ports = []netv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}
	}
	if r.IntN(3) == 0 {
		p.Spec.PolicyTypes = []netv1.PolicyType{netv1.PolicyTypeEgress}
		p.Spec.Egress = []netv1.NetworkPolicyEgressRule{{To: peers, Ports: ports}}
		return p
	}
	p.Spec.PolicyTypes = []netv1.PolicyType{netv1.PolicyTypeIngress}
	p.Spec.Ingress = []netv1.NetworkPolicyIngressRule{{From: peers, Ports: ports}}
	return p
}
