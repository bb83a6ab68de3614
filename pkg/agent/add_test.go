package agent

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
)

// TestResult: what is on a pod is answered as a whole. What may be there at all, attachment's fuzz test asks.
func TestResult(t *testing.T) {
	for _, annotation := range []string{
		goodAnnotation,
		strings.Replace(goodAnnotation, `"gateways"`, `"networkUID":"u","faces":["100.64.0.5","fd64::5"],"gateways"`, 1),
	} {
		n, err := attachment.Parse(annotation, "new", "eth0")
		if err != nil {
			t.Fatal(err)
		}
		w := wanted{nic: n}
		w.link.Addresses, w.link.Gateways, w.link.Faces = n.Addresses, n.Gateways, n.Faces
		if got := w.result(); len(got.IPs) != len(n.Addresses) || len(got.Routes) != len(n.Gateways) {
			t.Errorf("result %v of %+v", got, n)
		}
	}
}
