//go:build integration

package inspectapi

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAThousandNetworks: whoever may get all is told of a thousand Networks, of their addresses and of what they are made of, within a second, and so is the admin of a tenant who may get one of
// them, although Kubernetes is asked about each.
func TestAThousandNetworks(t *testing.T) {
	const many, most = 1000, time.Second
	l := newLab(t, false)
	var objects strings.Builder
	objects.WriteString("{apiVersion: atoll.dev/v1alpha1, kind: Tenant, metadata: {name: acme}, spec: {admins: [{kind: User, name: jo}]}}\n---\n")
	objects.WriteString("{apiVersion: atoll.dev/v1alpha1, kind: Network, metadata: {name: acme}, spec: {type: vpc, tenant: acme}}\n---\n")
	for i := range many - 2 {
		fmt.Fprintf(&objects, "{apiVersion: atoll.dev/v1alpha1, kind: Network, metadata: {name: network-%d}, spec: {type: vpc}}\n---\n", i)
	}
	l.apply(objects.String())
	l.run()
	for user, want := range map[string]int{l.server.Kubeconfig(): many, l.kubeconfigOf("jo"): 1} {
		// The first time, connections are made and roles come to be.
		l.eventually("the Networks", func() error {
			if _, out, trouble := l.atoll(user, "networks", "-o", "name"); strings.Count(out, "\n") != want || trouble != "" {
				return fmt.Errorf("%d Networks, want %d: %s", strings.Count(out, "\n"), want, trouble)
			}
			return nil
		})
		best := time.Hour
		for range 3 {
			began := time.Now()
			if status, out, _ := l.atoll(user, "networks"); status != 0 || strings.Count(out, "\n") != want+1 {
				t.Fatalf("status %d, %d lines", status, strings.Count(out, "\n"))
			}
			best = min(best, time.Since(began))
		}
		for _, args := range [][]string{{"ipam"}, {"topology"}, {"topology", "-o", "svg"}} {
			took := time.Hour
			for range 3 {
				began := time.Now()
				if status, out, _ := l.atoll(user, args...); status != 0 || out == "" {
					t.Fatalf("%v: status %d", args, status)
				}
				took = min(took, time.Since(began))
			}
			t.Logf("%v of %d: %s", args, want, took.Round(time.Millisecond))
			best = max(best, took)
		}
		t.Logf("of %d Networks, %d are told in %s", many, want, best.Round(time.Millisecond))
		if best > most {
			t.Errorf("it takes %s, want less than %s", best, most)
		}
	}
}
