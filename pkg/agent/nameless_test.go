package agent

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/names"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestAPodWithoutNamesIsTold: a pod whose Network asks its node for names is told when that does not answer, and no other is.
func TestAPodWithoutNamesIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		dns    []netip.Addr
		served bool
		mode   model.DNSMode
		told   int
	}{
		"without an address":            {served: true, mode: model.DNSNode, told: 1},
		"without a program":             {dns: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, mode: model.DNSNode, told: 1},
		"with both":                     {dns: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, served: true, mode: model.DNSNode},
		"of a Network that asks nobody": {mode: model.DNSNone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kubefake.NewClientset()
				a := &Agent{node: "n1", world: world.New("n1"), teller: newTeller("n1", api.CoreV1(), slog.New(slog.DiscardHandler))}
				a.world.SetInfrastructure(world.Infrastructure{DNS: test.dns})
				if test.served {
					a.names = names.New("/nowhere", nil, nil)
				}
				a.world.SetNetwork(&model.Network{Name: "red", UID: "u", DNS: test.mode})
				a.tellNameless(t.Context(), pod{key: model.PodKey{Namespace: "red", Name: "p"}, uid: "uid"},
					attachment.NIC{Network: "red", NetworkUID: "u", Faces: []netip.Addr{netip.MustParseAddr("100.64.0.1")}})
				synctest.Wait()
				list, err := api.CoreV1().Events("red").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != test.told {
					t.Errorf("%d Events (%v), want %d", len(list.Items), err, test.told)
				}
			})
		})
	}
}
