package inprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/wait"
)

// costly is a question whose answer takes as much as an answer may, of verdicts or, on a slow machine, of time: what would be, if
// a policy of the namespace named thousands of ports.
func costly() []byte {
	var rules []string
	for r := range 4 {
		var ports []string
		for i := range 900 {
			ports = append(ports, fmt.Sprintf(`{"protocol":"TCP","port":%d}`, 2*(900*r+i)+1))
		}
		rules = append(rules, `{"ports":[`+strings.Join(ports, ",")+`]}`)
	}
	rule := `[` + strings.Join(rules, ",") + `]`
	return []byte(`{"spec":{"policies":[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"red","name":"costly"},` +
		`"spec":{"podSelector":{"matchExpressions":[{"key":"own","operator":"Exists"}]},"policyTypes":["Ingress","Egress"],"ingress":` + rule +
		`,"egress":` + rule + `}}]}}`)
}

// soon is how long a renewal of the Lease may take, and a pod's port, by the time that the machine gives: as long as the Lease lasts.
const soon = 15 * time.Second

// TestMain is inspection, too, in a process of its own.
func TestMain(m *testing.M) {
	ServeApart()
	os.Exit(m.Run())
}

// TestInspectionDoesNotStarveTheController: inspection is a process of its own on the controller's machine, as it is installed. A
// Tenant's admin and an operator keep all of its places that they can have at work, with trials that end at their bound among it.
// The controller's Lease is renewed meanwhile, and a new pod gets its address and its port; and so when inspection is killed at
// its work.
//
// The load has no control: the kernel gives each process its turn, and without places the Lease is renewed as well. How much
// later that is depends on the machine. What places bound is how many work at once, which TestWorkLeavesProcessors of
// pkg/inspect/inspectapi counts, with a control.
func TestInspectionDoesNotStarveTheController(t *testing.T) {
	t.Parallel()
	objects, err := os.ReadFile(filepath.Join("..", "..", "pkg", "cli", "testdata", "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(objects)
	for i := range 10 {
		text += fmt.Sprintf(
			"\n---\n{apiVersion: v1, kind: Pod, metadata: {namespace: red, name: own-%d, labels: {app: own, own: \"%d\"}}, spec: {nodeName: n1, "+
				"containers: [{name: c, image: i}]}}", i, i)
	}
	c := Start(t, Options{Objects: text, Schema: filepath.Join("..", "rowgen", "ovn-nb.ovsschema"), Apart: true})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	// The Lease, as the controller holds it.
	leads := wake.NewSignal()
	running.Go(func() {
		options := kube.LeadOptions{Namespace: "red", Name: "leads", Identity: "one", Logger: slog.New(slog.DiscardHandler)}
		// On a machine that stands still for seconds it is lost, whatever inspection does.
		for ctx.Err() == nil {
			err := kube.Lead(ctx, c.config(controllerUser), options, func(term context.Context, _ string) {
				leads.Send()
				<-term.Done()
			})
			if ctx.Err() == nil {
				t.Logf("a term has ended: %v", err)
			}
		}
	})
	<-leads

	// Both ask as much as they may, without a pause.
	var (
		bounded, answered atomic.Int32
		last              atomic.Pointer[string]
	)
	body := costly()
	asking, quiet := context.WithCancel(ctx)
	defer quiet()
	asks := func(user, method, path string, body []byte) {
		client, err := rest.HTTPClientFor(c.config(user))
		if err != nil {
			t.Error(err)
			return
		}
		for asking.Err() == nil {
			request, err := http.NewRequestWithContext(asking, method, c.served.URL+"/apis/inspect.atoll.dev/v1alpha1"+path, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := client.Do(request)
			if err != nil {
				continue
			}
			told, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			switch answered.Add(1); {
			case bytes.Contains(told, []byte(`"cut":"`)), method == http.MethodPost && answer.StatusCode == http.StatusServiceUnavailable &&
				bytes.Contains(told, []byte("longer than it may")):
				bounded.Add(1)
			case method == http.MethodPost && answer.StatusCode == http.StatusCreated:
				t.Errorf("a trial is not at its bound: %.300s", told[max(0, len(told)-300):])
				return
			case answer.StatusCode >= http.StatusMultipleChoices:
				text := answer.Status + string(told)
				last.Store(&text)
			}
		}
	}
	for range 4 {
		for _, user := range []string{Jo, Operator} {
			running.Go(func() { asks(user, http.MethodPost, "/namespaces/red/policytrials", body) })
		}
		running.Go(func() { asks(Operator, http.MethodGet, "/ipams", nil) })
	}
	wait.Eventually(t, wait.Patience, "trials to be at their bound", func(context.Context) error {
		switch text := last.Load(); {
		case bounded.Load() > 1:
			return nil
		case text != nil:
			return errors.New(*text)
		}
		return fmt.Errorf("%d questions are answered, of which %d trials are at their bound", answered.Load(), bounded.Load())
	})

	// What is measured is at work all the time.
	trials := bounded.Load()
	c.goesOn("inspection is at work")
	wait.Until(t, wait.Patience, "more trials to end", func() bool { return bounded.Load() > trials })
	t.Logf("%d questions were answered, of which %d trials at their bound", answered.Load(), bounded.Load())
	c.inspection.kill()
	quiet()
	c.goesOn("inspection was killed")
}

// goesOn is an error of the test unless the Lease is renewed, and a new pod has its address and its port.
func (c *Cluster) goesOn(when string) {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.config(controllerUser))
	c.must(err)
	renewed := func() time.Time {
		lease, err := client.CoordinationV1().Leases("red").Get(c.t.Context(), "leads", meta.GetOptions{})
		c.must(err)
		return lease.Spec.RenewTime.Time
	}
	var before time.Time
	wait.Within(c.t, soon, when+": the Lease to be renewed", func() { before = renewed() }, func(context.Context) error {
		if !renewed().After(before) {
			return errors.New("it is not renewed")
		}
		return nil
	})
	key := model.PodKey{Namespace: "red"}
	wait.Within(c.t, soon, when+": the pod to have its port", func() {
		key.Name = fmt.Sprintf("late-%d", time.Now().UnixNano())
		_, err := client.CoreV1().Pods(key.Namespace).Create(c.t.Context(), &core.Pod{
			ObjectMeta: meta.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Spec: core.PodSpec{
				NodeName: "n1", Containers: []core.Container{{Name: "c", Image: "i"}},
			},
		}, meta.CreateOptions{})
		c.must(err)
	}, func(ctx context.Context) error {
		pod := c.feed.Held().Pods[key]
		if pod == nil || len(pod.Assigned) == 0 {
			return errors.New("it has no address")
		}
		found, err := c.northbound.Select(ctx,
			ovsdb.SelectRows("Logical_Switch_Port", []string{"name"}, ovsdb.Equal("name", key.First().PortName())))
		if err == nil && len(found[0]) != 1 {
			err = errors.New("it has no row")
		}
		return err
	})
}
