package agent

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
)

// FuzzResult: whatever a tenant writes on a pod, what passes is answered as a whole.
func FuzzResult(f *testing.F) {
	f.Add(goodAnnotation)
	f.Add(strings.Replace(goodAnnotation, `"gateways"`, `"networkUID":"u","faces":["100.64.0.5","fd64::5"],"gateways"`, 1))
	f.Fuzz(func(t *testing.T, annotation string) {
		n, err := attachment.Parse(annotation, "new", "eth0")
		if err != nil {
			return
		}
		w := wanted{nic: n}
		w.link.Addresses, w.link.Gateways, w.link.Faces = n.Addresses, n.Gateways, n.Faces
		if got := w.result(); len(got.IPs) != len(n.Addresses) || len(got.Routes) != len(n.Gateways) {
			t.Errorf("result %v of %+v", got, n)
		}
	})
}
