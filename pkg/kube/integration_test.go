//go:build integration

package kube

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// user is who the controller is in a cluster: the tests run with its rights, not with the administrator's.
const user = "system:serviceaccount:atoll-system:atoll-controller"

// lab is an API server that knows Networks, with a Feed and a Writer that run.
type lab struct {
	t        *testing.T
	ctx      context.Context
	server   *apiserver.Server
	pods     corev1client.CoreV1Interface
	networks rest.Interface
	feed     *Feed
	writer   *Writer
	// seen is all that the feed has given so far.
	seen model.Changes
}

// serve starts an API server that knows Networks and the controller's rights.
func serve(t *testing.T) *apiserver.Server {
	t.Helper()
	s := apiserver.Start(t)
	dist := filepath.Join("..", "..", "dist")
	must(t, s.Establish(t.Context(), filepath.Join(dist, "crds")))
	must(t, s.Apply(t.Context(), filepath.Join(dist, "rbac")))
	return s
}

func newLab(t *testing.T) *lab {
	t.Helper()
	s := serve(t)
	admin, err := newClients(s.RESTConfig())
	must(t, err)
	feed, err := NewFeed(s.As(user), Options{})
	must(t, err)
	writer, err := NewWriter(s.As(user), feed, WriterOptions{})
	must(t, err)
	ctx, stop := context.WithCancel(wait.Context(t, 2*wait.Patience))
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { writer.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return &lab{
		t: t, ctx: ctx, server: s, pods: admin.core, networks: admin.network, feed: feed, writer: writer,
		seen: model.NewChanges(),
	}
}

// until takes from the feed until what it gave so far meets a condition.
func (l *lab) until(what string, met func(model.Changes) bool) {
	l.t.Helper()
	for {
		l.seen.Merge(l.feed.Take())
		if met(l.seen) {
			return
		}
		select {
		case <-l.feed.Ready():
		case <-l.ctx.Done():
			l.t.Fatalf("%s did not happen; seen %+v", what, l.seen)
		}
	}
}

func (l *lab) flush() {
	l.t.Helper()
	if err := l.writer.Flush(l.ctx); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) createPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	l.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:                      "node1",
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	if change != nil {
		change(p)
	}
	out, err := l.pods.Pods("default").Create(l.ctx, p, metav1.CreateOptions{})
	must(l.t, err)
	return out
}

func (l *lab) getPod(name string) *corev1.Pod {
	l.t.Helper()
	p, err := l.pods.Pods("default").Get(l.ctx, name, metav1.GetOptions{})
	must(l.t, err)
	return p
}

func (l *lab) createNetwork(name string) *v1alpha1.Network {
	l.t.Helper()
	in := &v1alpha1.Network{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NetworkSpec{Type: v1alpha1.NetworkVPC},
	}
	var out v1alpha1.Network
	must(l.t, l.networks.Post().Resource("networks").Body(in).Do(l.ctx).Into(&out))
	return &out
}

func (l *lab) getNetwork(name string) *v1alpha1.Network {
	l.t.Helper()
	var out v1alpha1.Network
	must(l.t, l.networks.Get().Resource("networks").Name(name).Do(l.ctx).Into(&out))
	return &out
}

func has(name string) func(model.Changes) bool {
	return func(c model.Changes) bool { return c.Pods[key(name)] != nil }
}

func TestFeedOfACluster(t *testing.T) {
	l := newLab(t)
	l.until("sync", func(model.Changes) bool { return l.feed.Synced() })
	l.createPod("unscheduled", func(p *corev1.Pod) { p.Spec.NodeName = "" })
	l.createPod("hostnet", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	l.createNetwork("red")
	l.createPod("a", func(p *corev1.Pod) {
		p.Labels = map[string]string{model.LabelNetwork: "red"}
		p.Annotations = map[string]string{model.AnnotationNICs: `[{"ip":"10.0.0.5"}]`}
	})
	l.until("all to come", func(c model.Changes) bool {
		return has("a")(c) && c.Networks["red"] != nil && c.Namespaces["default"] != nil
	})
	if p := l.seen.Pods[key("a")]; p.Network != "red" || p.NIC.IP.String() != "10.0.0.5" || p.Node != "node1" {
		t.Errorf("got %+v", p)
	}
	if len(l.seen.Pods) != 1 {
		t.Errorf("pods that need no network were seen: %v", l.seen.Pods)
	}

	// A pod that ends is gone, though its object is still there.
	_, err := l.pods.Pods("default").Patch(l.ctx, "a", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{},
		"status")
	must(t, err)
	l.until("the end of a pod", func(c model.Changes) bool { return c.Pods[key("a")] == nil })

	must(t, l.pods.Pods("default").Delete(l.ctx, "a", metav1.DeleteOptions{}))
	again := l.createPod("a", nil)
	l.until("the pod's successor", func(c model.Changes) bool {
		return has("a")(c) && c.Pods[key("a")].UID == string(again.UID)
	})
}

func TestAttachmentsAreWritten(t *testing.T) {
	l := newLab(t)
	p := l.createPod("a", nil)
	l.writer.WriteAttachments(key("a"), string(p.UID), withUID(string(p.UID)))
	l.until("the annotation to come back", func(c model.Changes) bool { return has("a")(c) && c.Pods[key("a")].Assigned != nil })
	if diff := cmp.Diff(withUID(string(p.UID)), l.seen.Pods[key("a")].Assigned, cmp.Comparer(sameAttachment)); diff != "" {
		t.Error(diff)
	}
	if got := l.getPod("a").Annotations[model.AnnotationNetworkStatus]; got == "" {
		t.Error("no network-status annotation")
	}
	l.writer.WriteAttachments(key("a"), string(p.UID), nil)
	l.flush()
	if got := l.getPod("a").Annotations; len(got) != 0 {
		t.Errorf("annotations stay: %v", got)
	}
}

func withUID(uid string) []model.Attachment {
	one := decision[0]
	one.PodUID = uid
	return []model.Attachment{one}
}

// TestRefusedAttachmentsAreToldAndParked is a pod that has as many bytes of annotations as Kubernetes stores.
func TestRefusedAttachmentsAreToldAndParked(t *testing.T) {
	l := newLab(t)
	p := l.createPod("a", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"big": strings.Repeat("x", 262000)}
	})
	l.until("the pod", has("a"))
	// The API server tells Events too, of its own Service.
	watch, err := l.pods.Events("default").Watch(l.ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
	must(t, err)
	defer watch.Stop()
	l.writer.WriteAttachments(key("a"), string(p.UID), withUID(string(p.UID)))
	e, ok := (<-watch.ResultChan()).Object.(*corev1.Event)
	if !ok {
		t.Fatal("the watch of Events ended")
	}
	if e.Reason != model.ReasonAnnotationRefused || e.InvolvedObject.UID != p.UID ||
		!strings.Contains(e.Message, "remove or shorten") || !strings.Contains(e.Message, "262144") {
		t.Errorf("got %+v", e)
	}
	l.flush() // nothing is tried any more

	_, err = l.pods.Pods("default").Patch(l.ctx, "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"big":null}}}`),
		metav1.PatchOptions{})
	must(t, err)
	l.until("the annotation, once there is room", func(c model.Changes) bool { return c.Pods[key("a")].Assigned != nil })
}

func TestNothingIsWrittenOnASuccessor(t *testing.T) {
	l := newLab(t)
	p := l.createPod("a", nil)
	n := l.createNetwork("red")
	l.until("the objects", has("a"))
	l.writer.WriteAttachments(key("a"), "another uid", decision)
	l.writer.WriteAttachments(key("never made"), "u", decision)
	l.writer.WriteNetworkStatus("red", "another uid", model.NetworkStatus{Phase: model.Ready})
	l.writer.WriteFinalizer("red", "another uid", true)
	l.writer.WriteNetworkStatus("never made", "u", model.NetworkStatus{Phase: model.Ready})
	l.flush()
	if got := l.getPod("a"); got.ResourceVersion != p.ResourceVersion {
		t.Errorf("the pod was written: %v", got.Annotations)
	}
	if got := l.getNetwork("red"); got.ResourceVersion != n.ResourceVersion {
		t.Errorf("the Network was written: %+v", got)
	}
}

func TestNetworkStatusIsWrittenOnce(t *testing.T) {
	l := newLab(t)
	n := l.createNetwork("red")
	status := model.NetworkStatus{
		ObservedGeneration: 1, Phase: model.Ready,
		Conditions:   []model.Condition{{Type: model.ConditionReady, Status: true, Reason: "Written", Message: "all rows are there"}},
		Subnets:      []model.SubnetStatus{{Name: "default", CIDR: "10.128.0.0/14", Used: 1, Free: 262140}},
		ServiceCIDRs: []model.ServiceCIDRStatus{{CIDR: "10.9.0.0/16", Used: 3, Free: 65531}},
		Pods:         1,
		Isolation: &model.Isolation{
			Pods: model.Soft, DNS: model.Hard, Overall: model.Soft, Reasons: []model.Problem{{Reason: "A", Message: "a"}},
		},
	}
	l.writer.WriteNetworkStatus("red", string(n.UID), status)
	l.flush()
	first := l.getNetwork("red")
	if i := first.Status.Isolation; i == nil || i.Overall != v1alpha1.Soft || len(i.Reasons) != 1 {
		t.Errorf("isolation %+v", i)
	}
	l.until("its verdict", func(c model.Changes) bool {
		return c.Networks["red"] != nil && c.Networks["red"].Isolated == model.Soft
	})
	if first.Status.Phase != v1alpha1.NetworkReady || first.Status.Pods != 1 || len(first.Status.Conditions) != 1 {
		t.Fatalf("got %+v", first.Status)
	}
	l.writer.WriteNetworkStatus("red", string(n.UID), status)
	l.flush()
	if again := l.getNetwork("red"); again.ResourceVersion != first.ResourceVersion {
		t.Error("a status that was there already was written again")
	}
	status.Conditions, status.Subnets, status.ServiceCIDRs, status.Pods, status.Isolation = nil, nil, nil, 0, nil
	l.writer.WriteNetworkStatus("red", string(n.UID), status)
	l.flush()
	want := v1alpha1.NetworkStatus{Phase: v1alpha1.NetworkReady, ObservedGeneration: 1}
	if diff := cmp.Diff(want, l.getNetwork("red").Status, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is not reported any more stays:\n%s", diff)
	}
}

func TestFinalizerHoldsANetwork(t *testing.T) {
	l := newLab(t)
	n := l.createNetwork("red")
	l.writer.WriteFinalizer("red", string(n.UID), true)
	l.until("the finalizer", func(c model.Changes) bool { return c.Networks["red"] != nil && c.Networks["red"].Finalized })
	must(t, l.networks.Delete().Resource("networks").Name("red").Do(l.ctx).Error())
	l.until("the deletion", func(c model.Changes) bool { return c.Networks["red"].Deleting })
	l.writer.WriteFinalizer("red", string(n.UID), false)
	l.until("the end", func(c model.Changes) bool { return c.Networks["red"] == nil })
}

func TestEventsAreShown(t *testing.T) {
	l := newLab(t)
	p := l.createPod("a", nil)
	n := l.createNetwork("red")
	ns, err := l.pods.Namespaces().Get(l.ctx, "default", metav1.GetOptions{})
	must(t, err)
	watch, err := l.pods.Events("default").Watch(l.ctx, metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	full := model.Problem{Reason: model.ReasonSubnetFull, Message: "subnet a is full"}
	for range 3 {
		l.writer.Event(model.Pod{Key: key("a"), UID: string(p.UID)}.Ref(), full)
	}
	l.writer.Event(model.Network{Name: "red", UID: string(n.UID)}.Ref(), full)
	l.writer.Event(model.Namespace{Name: "default", UID: string(ns.UID)}.Ref(), full)
	l.writer.Event(model.Tenant{Name: "acme", UID: "u"}.Ref(), model.Problem{Reason: model.ReasonIsolationHard, Message: full.Message})
	got := map[string]int32{}
	for len(got) < 4 {
		e, ok := (<-watch.ResultChan()).Object.(*corev1.Event)
		if !ok {
			t.Fatal("the watch of Events ended")
		}
		if e.InvolvedObject.Kind == "Service" {
			continue // the API server tells of its own Service
		}
		kind, reason := corev1.EventTypeWarning, full.Reason
		if e.InvolvedObject.Kind == "Tenant" {
			// What is good is no warning.
			kind, reason = corev1.EventTypeNormal, model.ReasonIsolationHard
		}
		if e.Reason != reason || e.Message != full.Message || e.Type != kind {
			t.Errorf("got %+v", e)
		}
		got[fmt.Sprint(e.InvolvedObject.Kind, " ", e.InvolvedObject.UID)] = e.Count
	}
	want := map[string]int32{
		fmt.Sprint("Pod ", p.UID): 1, fmt.Sprint("Network ", n.UID): 1, fmt.Sprint("Namespace ", ns.UID): 1, "Tenant u": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOneLeadsAtATime(t *testing.T) {
	s := serve(t)
	ctx := wait.Context(t, wait.Patience)
	lead := LeadOptions{Namespace: "atoll-system", Name: "atoll-controller", Identity: "test"}
	epochs := make(chan string)
	var mu sync.Mutex // held by the leader: a second one would wait here, and fail
	term := func(ctx context.Context, epoch string) {
		if !mu.TryLock() {
			t.Error("two lead at once")
			return
		}
		defer mu.Unlock()
		select {
		case epochs <- epoch:
		case <-ctx.Done():
		}
		<-ctx.Done()
	}
	first, endFirst := context.WithCancel(ctx)
	second, endSecond := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- Lead(first, s.As(user), lead, term) }()
	one := <-epochs
	go func() { ended <- Lead(second, s.As(user), lead, term) }()
	start := time.Now()
	endFirst()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	two := <-epochs
	if took := time.Since(start); took > leaseDuration/2 {
		t.Errorf("the second led after %s; a lease that is given back is taken at once", took)
	}
	if one == two || one == "" {
		t.Errorf("epochs %q and %q", one, two)
	}
	endSecond()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the second ended with %v", err)
	}

	// A leader that stops on its own releases the lease, too.
	if err := Lead(ctx, s.As(user), lead, func(context.Context, string) {}); err != nil {
		t.Error(err)
	}
}

// BenchmarkWriteAttachments is the one write on the way of a pod that starts.
func BenchmarkWriteAttachments(b *testing.B) {
	s := apiserver.Start(b)
	c, err := newClients(s.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(s.RESTConfig(), nil, WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer stop()
	uids := make([]string, 500)
	for i := range uids {
		p, err := c.core.Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
			Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		uids[i] = string(p.UID)
	}
	writes := 0
	for b.Loop() {
		for i, uid := range uids {
			list := withUID(uid)
			list[0].MAC = fmt.Sprintf("0a:00:00:00:%02x:%02x", writes%256, i%256)
			w.WriteAttachments(key(fmt.Sprint("p", i)), uid, list)
		}
		if err := w.Flush(ctx); err != nil {
			b.Fatal(err)
		}
		writes += len(uids)
	}
	b.ReportMetric(float64(writes)/b.Elapsed().Seconds(), "pods/s")
}
