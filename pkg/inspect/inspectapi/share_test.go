package inspectapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/process/turns"
	"github.com/atoll-net/atoll/test/wait"
)

// namespaces is how many the Tenant mallory has, whose ServiceAccounts may see as much as those of any tenant.
const namespaces = 20

// ofMallory is the Tenant mallory with its namespaces, and the Tenant acme, whose admin jo is.
func ofMallory(t *testing.T) snapshot.Tenants {
	t.Helper()
	held := snapshot.Held{Objects: model.NewChanges()}
	for i := range namespaces {
		name := fmt.Sprintf("mallory-%d", i)
		held.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelTenant: "mallory"}}
	}
	held.Objects.Tenants["acme"] = &model.Tenant{Name: "acme", Admins: []model.TenantAdmin{{Kind: "User", Name: "jo"}}}
	out, err := snapshot.Sources{Held: func() (snapshot.Held, error) { return held, nil }}.Tenants()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// account is a ServiceAccount of one of mallory's namespaces.
func account(i int) string {
	return fmt.Sprintf("system:serviceaccount:mallory-%d:any", i%namespaces)
}

// hold has mallory ask so many times at once, until ctx ends. Each answer is 200, or 429.
func (w *world) hold(ctx context.Context, t *testing.T, times int, method, path string, body func() io.Reader) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	t.Cleanup(asking.Wait)
	t.Cleanup(cancel)
	for i := range times {
		asking.Go(func() {
			request, err := http.NewRequestWithContext(ctx, method, w.URL+"/apis/inspect.atoll.dev/v1alpha1"+path, body())
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("X-Remote-User", account(i))
			if answer, err := w.client.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
}

// none is no body.
func none() io.Reader { return http.NoBody }

// unbounded has no share, and keeps no places: what the controls are about.
func unbounded(every int) *turns.Turns {
	return turns.New("questions", turns.Bounds{Every: every, Each: every})
}

// TestOneTenantHoldsNotAllTurns: accounts of many namespaces of a Tenant hold all that they can get, and discovery, an operator
// and another Tenant are answered. The control is one count for all, in which the operator is refused; discovery takes no turn
// there, either.
func TestOneTenantHoldsNotAllTurns(t *testing.T) {
	t.Parallel()
	for _, mended := range []bool{true, false} {
		w, held := newWorld(t), int32(4)
		w.answers.tenants, w.answers.block = ofMallory(t), make(chan struct{})
		w.handler.places.turnTime = 500 * time.Millisecond
		if !mended {
			w.answers.tenants, held = snapshot.Tenants{}, 16
			w.handler.places.come, w.handler.places.turns = unbounded(64), unbounded(16)
		}
		w.hold(t.Context(), t, 40, http.MethodGet, "/networks/umbrella", none)
		wait.Until(t, wait.Patience, "mallory's questions to have their turns", func() bool { return w.answers.asked.Load() == held })
		for _, c := range []struct {
			user, path string
			status     int
		}{
			{"operator", "", http.StatusOK},
			{"ann", "", http.StatusOK},
			{"operator", "/networks/acme", map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[mended]},
			{"jo", "/networks/acme", map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[mended]},
			{account(0), "/networks/acme", http.StatusTooManyRequests},
		} {
			if status, told := w.ask(t, w.client, c.user, c.path); status != c.status {
				t.Errorf("mended %t: %s asks for %q: %d %s", mended, c.user, c.path, status, told)
			}
		}
		close(w.answers.block)
	}
}

// TestWorkLeavesProcessors: however many explain, no more of them work at once than leave half of the processors to what else the
// controller does, and no more than one of each share. An operator is among them when all others' places are taken. The control
// has places for all.
func TestWorkLeavesProcessors(t *testing.T) {
	t.Parallel()
	const many, path, question = 4, "/namespaces/acme/explanations", `{"spec":{"from":"acme/web"}}`
	every := max(2, goruntime.GOMAXPROCS(0)/2)
	for _, mended := range []bool{true, false} {
		w, want := newWorld(t), int32(1+min(many, every/2))
		w.answers.tenants, w.answers.blockWork = ofMallory(t), make(chan struct{})
		if !mended {
			w.handler.places.work, want = unbounded(64), 2*many
		}
		var asking sync.WaitGroup
		for _, user := range []string{"jo", "operator"} {
			for range many {
				asking.Go(func() {
					if status, told := w.send(t, w.client, user, http.MethodPost, path, question); status != http.StatusCreated {
						t.Errorf("mended %t: %s is answered %d %s", mended, user, status, told)
					}
				})
			}
		}
		wait.Until(t, wait.Patience, "explanations to be at work", func() bool { return w.answers.asked.Load() == want })
		close(w.answers.blockWork)
		asking.Wait()
		if got := w.answers.most.Load(); got != want {
			t.Errorf("mended %t: %d explanations were at work at once, want %d", mended, got, want)
		}
	}
}

// TestReadsThatWorkTakeTurns: what is read and takes a processor, as ipamchecks do, takes a place of such work, as a list and by its
// name: where there is none, nothing is looked up. The controls are a free place, and the same row without its flag.
func TestReadsThatWorkTakeTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		flagged, held bool
		status        int
	}{
		{"the only place is taken", true, true, http.StatusServiceUnavailable},
		{"a place is free", true, false, http.StatusOK},
		{"the only place is taken, and the row has no flag", false, true, http.StatusOK},
	} {
		a := &answers{idle: !c.flagged}
		w := newWorldOf(t, func(h *handler) http.Handler {
			h.answers, h.places.work = a.table(), unbounded(1)
			return h.mux()
		})
		if c.held {
			leave, err := w.handler.places.work.Enter(turns.Who{Share: "somebody"})
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		if c.status != http.StatusOK {
			w.handler.places.answerTime = 500 * time.Millisecond
		}
		for _, path := range []string{"/ipamchecks", "/ipamchecks/acme"} {
			before := a.asked.Load()
			status, told := w.ask(t, w.client, "operator", path)
			if looked := a.asked.Load() > before; status != c.status || looked != (c.status == http.StatusOK) {
				t.Errorf("%s: %s is answered %d %s, and looked up: %t", c.name, path, status, told, looked)
			}
		}
	}
}

// never is a body that does not end.
type never struct{ gone <-chan struct{} }

func (n never) Read([]byte) (int, error) {
	<-n.gone
	return 0, io.EOF
}

// TestSlowBodiesHoldNoTurn: who does not say what they ask keeps off those of their own share alone, and not for long.
func TestSlowBodiesHoldNoTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers.tenants = ofMallory(t)
	w.handler.places.bodyTime = 3 * time.Second
	// Whoever had a turn would keep it from all others.
	w.handler.places.turns = unbounded(1)
	const path, question = "/namespaces/acme/explanations", `{"spec":{"from":"acme/web"}}`
	w.hold(t.Context(), t, 40, http.MethodPost, path, func() io.Reader { return never{t.Context().Done()} })
	mallory := func() int {
		status, _ := w.send(t, w.client, account(1), http.MethodPost, path, question)
		return status
	}
	wait.Until(t, wait.Patience, "mallory to have all places of its own", func() bool { return mallory() == http.StatusTooManyRequests })
	for _, user := range []string{"operator", "jo"} {
		if status, told := w.send(t, w.client, user, http.MethodPost, path, question); status != http.StatusCreated {
			t.Errorf("%s is answered %d %s", user, status, told)
		}
	}
	wait.Until(t, wait.Patience, "mallory's bodies to be given up", func() bool { return mallory() == http.StatusCreated })
	if status, told := w.send(t, w.client, "jo", http.MethodPost, path,
		`{"spec":{"from":"`+strings.Repeat("x", maxQuestion)+`"}}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("what is too long is answered %d %s", status, told)
	}
}

// TestOneTenantIsNotAllFollowers: as TestOneTenantHoldsNotAllTurns, for those who follow flows.
func TestOneTenantIsNotAllFollowers(t *testing.T) {
	t.Parallel()
	for _, mended := range []bool{true, false} {
		w, held := newFlowWorld(t), 4
		w.answers.tenants = ofMallory(t)
		if !mended {
			w.answers.tenants, held = snapshot.Tenants{}, 16
			w.flower.followers = unbounded(16)
			w.flower.crowd = w.flower.followers
		}
		follow := func(user, network string) bool {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				w.URL+"/apis/inspect.atoll.dev/v1alpha1/flows?watch=true&network="+network, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Remote-User", user)
			answer, err := w.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = answer.Body.Close() })
			if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s is answered %s", user, answer.Status)
			}
			return answer.StatusCode == http.StatusOK
		}
		got := 0
		for i := range 2 * namespaces {
			if follow(account(i), "umbrella") {
				got++
			}
		}
		if got != held {
			t.Errorf("mended %t: mallory follows %d times", mended, got)
		}
		for user, network := range map[string]string{"jo": "acme", "operator": "umbrella"} {
			if is := follow(user, network); is != mended {
				t.Errorf("mended %t: %s follows: %t", mended, user, is)
			}
		}
		// Who follows keeps nobody from asking once, themselves neither.
		for _, path := range []string{"/flows/acme", "/namespaces/acme/podflows"} {
			if status, told := w.ask(t, w.client, account(0),
				path); status != map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[mended] {
				t.Errorf("mended %t: mallory asks for %s: %d %s", mended, path, status, told)
			}
		}
	}
}

// TestWhoMayAskOfFlowsIsKnownBeforeAPlace: as long as it is looked up what somebody may ask, they have no place.
func TestWhoMayAskOfFlowsIsKnownBeforeAPlace(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.flower.crowd, w.answers.blockList = unbounded(1), make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		if status, told := w.ask(t, w.client, "jo", "/flows"); status != http.StatusOK {
			t.Errorf("jo is answered %d %s", status, told)
		}
	})
	wait.Until(t, wait.Patience, "jo's Networks to be looked for", func() bool { return w.answers.asked.Load() > 0 })
	if status, told := w.ask(t, w.client, "operator", "/flows"); status != http.StatusOK {
		t.Errorf("the operator is answered %d %s", status, told)
	}
	close(w.answers.blockList)
	asking.Wait()
}

// TestWhoseShare: the ServiceAccounts of a Tenant's namespaces and its admins are one, who may see the cluster has places that
// are kept, and others are users or namespaces.
func TestWhoseShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers.tenants = ofMallory(t)
	for name, want := range map[string]turns.Who{
		account(1): {Share: "tenant:mallory", Tenant: true}, account(7): {Share: "tenant:mallory", Tenant: true},
		"jo":       {Share: "tenant:acme", Tenant: true},
		"operator": {Share: "user:operator", Operator: true}, "ann": {Share: "user:ann"},
		"system:serviceaccount:own:a": {Share: "system:serviceaccount:own"}, "system:serviceaccount:own:b": {Share: "system:serviceaccount:own"},
	} {
		if got := w.handler.share(t.Context(), access.User{Name: name}); got != want {
			t.Errorf("%s is counted as %+v", name, got)
		}
	}
}

// TestWhoAsksAtOnceIsReviewedOnce: as many as ask the same at the same time, Kubernetes is asked once, also when the first of them goes.
func TestWhoAsksAtOnceIsReviewedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reviews, allowed atomic.Int32
		answer, client := make(chan struct{}), fake.NewClientset()
		client.PrependReactor("create", "subjectaccessreviews", func(kubetest.Action) (bool, runtime.Object, error) {
			reviews.Add(1)
			<-answer
			return true, &authorization.SubjectAccessReview{Status: authorization.SubjectAccessReviewStatus{Allowed: true}}, nil
		})
		a := newAuthorizer(client)
		asks := func(ctx context.Context) {
			go func() {
				if may, err := a.may(ctx, access.User{Name: "jo"}, attributes{verb: "get", resource: "networks", name: "acme"}); err == nil && may {
					allowed.Add(1)
				}
			}()
			synctest.Wait()
		}
		first, goes := context.WithCancel(t.Context())
		asks(first)
		for range 20 {
			asks(t.Context())
		}
		goes()
		close(answer)
		synctest.Wait()
		if reviews.Load() != 1 || allowed.Load() < 20 {
			t.Errorf("Kubernetes is asked %d times, %d are allowed", reviews.Load(), allowed.Load())
		}
	})
}
