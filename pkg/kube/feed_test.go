package kube

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

func testPod(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "node1"},
	}
}

func key(name string) model.PodKey { return model.PodKey{Namespace: "default", Name: name} }

// deaf makes a Feed whose sources nobody runs, and its stores.
func deaf(t *testing.T) (feed *Feed, pods, namespaces, networks cache.ReflectorStore) {
	t.Helper()
	f, err := NewFeed(&rest.Config{Host: "http://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f, f.kinds[0].Store, f.kinds[1].Store, f.kinds[2].Store
}

// must fails the test when a store refuses something.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podsOf is the UID of each pod of a Changes, "gone" for one that has gone.
func podsOf(c model.Changes) map[string]string {
	out := map[string]string{}
	for k, p := range c.Pods {
		out[k.Name] = "gone"
		if p != nil {
			out[k.Name] = p.UID
		}
	}
	return out
}

func wantPods(t *testing.T, f *Feed, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, podsOf(f.Take())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFeedGathersTheNewest(t *testing.T) {
	f, pods, _, _ := deaf(t)
	must(t, pods.Add(testPod("a", "1")))
	must(t, pods.Delete(testPod("a", "1")))
	must(t, pods.Add(testPod("a", "2")))
	must(t, pods.Add(testPod("b", "3")))
	must(t, pods.Delete(testPod("b", "3")))
	must(t, pods.Delete(testPod("never seen", "4")))
	wantPods(t, f, map[string]string{"a": "2"})
	must(t, pods.Delete(testPod("a", "2")))
	wantPods(t, f, map[string]string{"a": "gone"})
	wantPods(t, f, map[string]string{})
}

func TestFeedLeavesAwayWhatChangesNothing(t *testing.T) {
	f, pods, _, _ := deaf(t)
	must(t, pods.Add(testPod("a", "1")))
	f.Take()
	<-f.Ready()
	busy := testPod("a", "1")
	busy.Status.Phase, busy.ResourceVersion = corev1.PodRunning, "99"
	must(t, pods.Update(busy))
	wantPods(t, f, map[string]string{})
	select {
	case <-f.Ready():
		t.Error("a change of the pod's status is no news")
	default:
	}
	done := busy.DeepCopy()
	done.Status.Phase = corev1.PodSucceeded
	must(t, pods.Update(done))
	wantPods(t, f, map[string]string{"a": "gone"})
}

func TestFeedSeesWhatAListLacks(t *testing.T) {
	f, pods, namespaces, networks := deaf(t)
	must(t, pods.Replace([]any{testPod("a", "1"), testPod("b", "2")}, "1"))
	if f.Synced() {
		t.Error("synced before namespaces and networks were listed")
	}
	must(t, namespaces.Replace([]any{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}, "1"))
	must(t, networks.Replace(nil, "1"))
	if f.Synced() {
		t.Error("synced before nodes were listed")
	}
	for _, s := range f.kinds[3:] {
		must(t, s.Store.Replace(nil, "1"))
	}
	if f.Synced() {
		t.Error("synced before it was known whether the cluster has Gateway API")
	}
	f.follow(t.Context(), offered{})
	<-f.Ready()
	if !f.Synced() {
		t.Error("not synced after all were listed")
	}
	got := f.Take()
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, podsOf(got)); diff != "" || got.Namespaces["ns"] == nil {
		t.Errorf("%s%v", diff, got.Namespaces)
	}
	must(t, pods.Replace([]any{testPod("b", "2"), testPod("c", "3")}, "9"))
	wantPods(t, f, map[string]string{"a": "gone", "c": "3"})
}

func TestFeedKnowsStatusesWhileTheirNetworksLive(t *testing.T) {
	f, _, _, networks := deaf(t)
	n := &v1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "red", UID: "u", ResourceVersion: "10"},
		Status:     v1alpha1.NetworkStatus{Pods: 3},
	}
	must(t, networks.Add(n))
	older := n.DeepCopy()
	older.ResourceVersion, older.Status.Pods = "9", 1
	f.statuses.observe(older.Name, older, older.Status)
	if got, ok := f.statuses.get("red", "u"); !ok || got.Pods != 3 {
		t.Errorf("got %+v, %v; an older state must not replace a newer", got, ok)
	}
	if _, ok := f.statuses.get("red", "another"); ok {
		t.Error("the status of another Network of that name was given")
	}
	must(t, networks.Delete(n))
	if _, ok := f.statuses.get("red", "u"); ok {
		t.Error("the status outlives its Network")
	}
}

func TestPodsOfAFirstListReadTheSame(t *testing.T) {
	f, pods, _, _ := deaf(t)
	whole := testPod("a", "1")
	whole.Labels = map[string]string{model.LabelNetwork: "red"}
	whole.Spec.Containers = []corev1.Container{{Name: "c"}}
	must(t, pods.Add(whole))
	f.Take()
	transform := pods.(cache.TransformingStore).Transformer()
	var list []any
	for _, p := range []*corev1.Pod{whole, testPod("b", "2")} {
		small, err := transform(p)
		must(t, err)
		if _, ok := small.(*corev1.Pod); ok {
			t.Error("a whole pod is held")
		}
		if name, err := cache.MetaNamespaceKeyFunc(small); err != nil || name != p.Namespace+"/"+p.Name {
			t.Errorf("the reflector knows %s/%s as %q, error %v", p.Namespace, p.Name, name, err)
		}
		list = append(list, small)
	}
	must(t, pods.Replace(list, "9"))
	wantPods(t, f, map[string]string{"b": "2"})
}

func BenchmarkFeedPodUpdate(b *testing.B) {
	f, err := NewFeed(&rest.Config{Host: "http://127.0.0.1:1"}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	list := make([]*corev1.Pod, 5000)
	for i := range list {
		list[i] = testPod(fmt.Sprint("pod-", i), fmt.Sprint(i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := f.kinds[0].Store.Update(list[i%len(list)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func TestNodesReadAndWritten(t *testing.T) {
	want := model.NodeNetwork{
		NodeUID: "u1", Network: "default", NetworkUID: "u2", MAC: "06:00:00:00:00:01",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.0.2/16")},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.244.0.1")},
		Faces:     []netip.Prefix{netip.MustParsePrefix("100.64.0.0/23"), netip.MustParsePrefix("fd64:a701::/119")},
	}
	body, err := annotationsPatch("u1", nodeAnnotations(want))
	must(t, err)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n1"},
			{Type: corev1.NodeInternalIP, Address: "172.18.0.2"},
			{Type: corev1.NodeExternalIP, Address: "2001:db8::1"},
			{Type: corev1.NodeInternalIP, Address: "no address"},
		}},
	}
	must(t, json.Unmarshal(body, n))
	got := intake.Node(n)
	if diff := cmp.Diff(&want, got.Assigned, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("what was written is not what is read (-want +got):\n%s", diff)
	}
	if len(got.Addresses) != 2 || got.Addresses[0].String() != "172.18.0.2" || got.Addresses[1].String() != "2001:db8::1" {
		t.Errorf("addresses %v", got.Addresses)
	}
	again := intake.Node(n)
	if !sameNode(got, again) {
		t.Error("the same node differs")
	}
	again.Assigned.Faces = again.Assigned.Faces[:1]
	if sameNode(got, again) {
		t.Error("a node with other faces is the same")
	}
	n.UID = "u9"
	if other := intake.Node(n); other.Assigned != nil {
		t.Errorf("a Node that was made anew has %+v", other.Assigned)
	}
}

// TestHeldStaysForOthers: who looks on sees what there is, whoever has taken of it.
func TestHeldStaysForOthers(t *testing.T) {
	f, pods, _, _ := deaf(t)
	must(t, pods.Add(testPod("a", "1")))
	must(t, pods.Add(testPod("b", "2")))
	f.Take()
	must(t, pods.Delete(testPod("b", "2")))
	held := f.Held()
	if len(held.Pods) != 1 || held.Pods[model.PodKey{Namespace: "ns", Name: "a"}] == nil {
		t.Errorf("it holds %v", held.Pods)
	}
	if taken := f.Take(); len(taken.Pods) != 1 {
		t.Errorf("who takes gets %v", taken.Pods)
	}
}
