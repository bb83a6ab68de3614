package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Dig lets a pod ask one DNS question of whom kubelet told it to ask.
func (c *Cluster) Dig(ctx context.Context, from *corev1.Pod, args ...string) (wire.Said, error) {
	var said wire.Said
	out, err := c.Exec(ctx, from.Namespace, from.Name, nil, append([]string{matrix.Program, "dig", "-for", "3s"}, args...)...)
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	slices.Sort(said.Records)
	return said, err
}

// Resolves waits until a pod finds exactly these addresses under a name, as any program does.
func (c *Cluster) Resolves(t *testing.T, from *corev1.Pod, name string, want []netip.Addr) {
	t.Helper()
	want = slices.SortedFunc(slices.Values(want), netip.Addr.Compare)
	Eventually(t, Patience, fmt.Sprintf("%s/%s looks up %s", from.Namespace, from.Name, name), func(ctx context.Context) error {
		out, err := c.Exec(ctx, from.Namespace, from.Name, nil, matrix.Program, "resolve", name)
		if err != nil {
			return err
		}
		var list []wire.Name
		if err := json.Unmarshal(out, &list); err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("got %s", out)
		}
		got := slices.SortedFunc(slices.Values(list[0].Addresses), netip.Addr.Compare)
		if !slices.Equal(got, want) {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}
