package agent

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestNetworksAreToldThatNobodyLeads: once for each five minutes, however many agents say it, and not while a controller leads.
func TestNetworksAreToldThatNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kubefake.NewClientset()
		leases := api.CoordinationV1().Leases("atoll-system")
		if _, err := leases.Create(t.Context(), lease("one", time.Now()), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		renew := func(ctx context.Context) {
			if _, err := leases.Update(ctx, lease("one", time.Now()), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for _, name := range []string{"n1", "n2"} {
			a := &Agent{node: name, world: testWorld(name), leader: leader{leases: api.CoordinationV1(), namespace: "atoll-system"}}
			go func() { _ = a.tellOfAbsence(ctx, newTeller(name, api.CoreV1(), slog.New(slog.DiscardHandler))) }()
		}
		said := func() map[string]int {
			list, err := api.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]int{}
			for _, e := range list.Items {
				if e.InvolvedObject.Kind != "Network" || e.Reason != model.ReasonControllerAway ||
					!strings.Contains(e.Message, "the last one, one, was heard of at") {
					t.Errorf("%+v", e)
				}
				by[e.InvolvedObject.Name]++
			}
			return by
		}
		for range 30 {
			renew(t.Context())
			<-time.After(time.Second)
		}
		if by := said(); len(by) > 0 {
			t.Errorf("while one leads, %v are told that none does", by)
		}
		<-time.After(9 * time.Second)
		if by := said(); by["red"] != 1 || by["default"] != 1 {
			t.Errorf("9 s after the last word of one, Networks are told %v", by)
		}
		<-time.After(20 * time.Minute)
		if by := said(); by["red"] < 4 || by["red"] > 6 {
			t.Errorf("after 20 minutes more, Networks are told %v", by)
		}
	})
}
