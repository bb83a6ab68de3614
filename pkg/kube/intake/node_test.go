package intake

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestNodeIsBounded: a kubelet writes its Node's status, and every address of it is in the rules of every porthole. So a Node
// takes away single addresses that a machine can have, and few of them.
func TestNodeIsBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 2 * model.MaxNodeAddresses {
		many = append(many, fmt.Sprintf("192.0.%d.%d", i/256, i%256))
	}
	for name, test := range map[string]struct {
		given []string
		want  int
	}{
		"addresses of both families": {[]string{"192.0.2.1", "2001:db8::1", "10.1.2.3", "fd00::7"}, 4},
		"the same twice":             {[]string{"192.0.2.1", "192.0.2.2", "192.0.2.1"}, 2},
		"ranges and words":           {[]string{"0.0.0.0/0", "192.0.2.0/24", "::/0", "all", ""}, 0},
		"nobody's and everybody's": {
			[]string{"0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "255.255.255.255"}, 0,
		},
		"link-local":               {[]string{"169.254.169.254", "fe80::1", "fe80::1%eth0"}, 0},
		"IPv4 in the form of IPv6": {[]string{"::ffff:192.0.2.1"}, 0},
		"more than count":          {many, model.MaxNodeAddresses},
		"what counts for nothing before what counts": {append(slices.Repeat([]string{"127.0.0.1"}, model.MaxNodeAddresses), "192.0.2.1"), 1},
	} {
		for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
			t.Run(fmt.Sprintf("%s, %s", name, kind), func(t *testing.T) {
				t.Parallel()
				var in corev1.Node
				for _, text := range test.given {
					in.Status.Addresses = append(in.Status.Addresses,
						corev1.NodeAddress{Type: corev1.NodeHostName, Address: "10.9.9.9"}, corev1.NodeAddress{Type: kind, Address: text})
				}
				got := Node(&in).Addresses
				if len(got) != test.want {
					t.Errorf("%d addresses, want %d: %v", len(got), test.want, got)
				}
			})
		}
	}
}
