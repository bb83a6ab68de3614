//go:build integration

package inspectapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/wait"
)

// TestAThousandNetworks: whoever may get all is told of a thousand Networks, of their addresses and of what they are made of,
// within a second, and so is the admin of a tenant who may get one of them, although Kubernetes is asked about each.
func TestAThousandNetworks(t *testing.T) {
	const many, most = 1000, time.Second
	l := newLab(t, false)
	var objects strings.Builder
	objects.WriteString(
		"{apiVersion: atoll.dev/v1alpha1, kind: Tenant, metadata: {name: acme}, spec: {admins: [{kind: User, name: jo}]}}\n---\n")
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
		for _, args := range [][]string{{"networks"}, {"ipam"}, {"topology"}, {"topology", "-o", "svg"}} {
			began := time.Now()
			wait.Within(t, most, strings.Join(args, " "), func() { began = time.Now() }, func(context.Context) error {
				status, out, _ := l.atoll(user, args...)
				if status != 0 || out == "" || args[0] == "networks" && strings.Count(out, "\n") != want+1 {
					t.Fatalf("%v: status %d, %d lines", args, status, strings.Count(out, "\n"))
				}
				return nil
			})
			t.Logf("%v of %d Networks, of which the user sees %d: %s", args, many, want, time.Since(began).Round(time.Millisecond))
		}
	}
}
