package agent

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func lease(holder string, renewed time.Time) *coordinationv1.Lease {
	at, duration := metav1.NewMicroTime(renewed), int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "atoll-system", Name: leaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &duration},
	}
}

// TestWhoLeads: a controller that renews its Lease leads, whatever its clock says; one that gave it up, or has not renewed it for
// some seconds, does not.
func TestWhoLeads(t *testing.T) {
	for _, test := range []struct {
		name string
		// lease at a second of the test; nil: there is none.
		lease func(second int, start time.Time) *coordinationv1.Lease
		// says it after so many seconds at the latest, and not two before; nothing: never.
		after int
		says  string
	}{
		{name: "it leads", lease: func(s int, start time.Time) *coordinationv1.Lease {
			return lease("one", start.Add(time.Duration(s/2*2)*time.Second))
		}},
		{name: "its clock is behind", lease: func(s int, start time.Time) *coordinationv1.Lease {
			return lease("one", start.Add(time.Duration(s/2*2-9)*time.Second))
		}},
		{name: "it was killed", after: 6, says: "the last one, one, was heard of at " +
			"2000-01-01T00:00:00Z", lease: func(_ int, start time.Time) *coordinationv1.Lease {
			return lease("one", start)
		}},
		{name: "it was killed long ago", says: "the last one, one, was heard of at", lease: func(_ int, start time.Time) *coordinationv1.Lease {
			return lease("one", start.Add(-time.Minute))
		}},
		{name: "it stopped", says: "gave up its Lease", lease: func(_ int, start time.Time) *coordinationv1.Lease { return lease("", start) }},
		{name: "there was none", says: "no atoll-controller has led yet", lease: func(int, time.Time) *coordinationv1.Lease { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, start := kubefake.NewClientset(), time.Now()
				l := leader{leases: api.CoordinationV1(), namespace: "atoll-system"}
				for second := 0; second <= 20; second += 2 {
					leases := api.CoordinationV1().Leases("atoll-system")
					_ = leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{})
					if now := test.lease(second, start); now != nil {
						if _, err := leases.Create(t.Context(), now, metav1.CreateOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					problem, away := l.without(t.Context(), "all waits")
					if want := test.says != "" && second >= test.after; away != want {
						t.Errorf("second %d: away %t, want %t", second, away, want)
					}
					if away && (problem.Reason != model.ReasonControllerAway || !strings.Contains(problem.Message, test.says)) {
						t.Errorf("second %d: %+v", second, problem)
					}
					<-time.After(2 * time.Second)
				}
			})
		})
	}
}

// TestEventsAreBounded: the first of many pods are told at once, the others by and by; and none twice the same.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kubefake.NewClientset()
		teller := newTeller("n1", api.CoreV1(), slog.New(slog.DiscardHandler))
		all := func() int {
			list, err := api.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Items {
				if e.Type != "Warning" || e.Source.Host != "n1" || e.InvolvedObject.Kind != "Pod" || len(e.Message) > maxMessage || len(e.Name) > 253 {
					t.Errorf("%+v", e)
				}
			}
			return len(list.Items)
		}
		round := func() {
			for i := range 500 {
				name := fmt.Sprintf("p%d-%s", i, strings.Repeat("x", 240))
				teller.warn(t.Context(), model.PodKey{Namespace: "red", Name: name}, fmt.Sprint("uid", i),
					model.Problem{Reason: "Why", Message: strings.Repeat("ä", 600)})
			}
		}
		round()
		if got := all(); got != eventsBurst {
			t.Errorf("%d Events at once, want %d", got, eventsBurst)
		}
		for range 10 {
			<-time.After(time.Second)
			round()
		}
		if got, want := all(), eventsBurst+10*eventsPerSecond; got < want-1 || got > want+1 {
			t.Errorf("%d Events after 10 s, want %d", got, want)
		}
	})
}
