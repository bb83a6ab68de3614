package kube

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestARefusedPodIsReportedSo: a pod that nothing can be written on is reported as such, so that it holds nothing; and as it is
// when it is worth another try: after some time, soon after it has changed, the later the more often it was refused. Nothing is
// left of it when it has gone.
func TestARefusedPodIsReportedSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFeed(&rest.Config{Host: "http://127.0.0.1:1"}, Options{})
		must(t, err)
		store := f.kinds[0].Store
		seen := func(uid string) {
			t.Helper()
			must(t, store.Update(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "a", UID: types.UID(uid), Labels: map[string]string{"version": time.Now().String()},
				},
				Spec: corev1.PodSpec{NodeName: "n1"},
			}))
		}
		pod := key("a")
		// reported waits for what the taker is told of the pod.
		reported := func(what string, within time.Duration, why string) {
			t.Helper()
			synctest.Wait()
			deadline := time.Now().Add(within)
			for {
				p, told := f.Take().Pods[pod]
				if told && p != nil && p.Unwritable == why {
					return
				}
				if !time.Now().Before(deadline) {
					t.Fatalf("%s: told %t of %+v, want it unwritable for %q", what, told, p, why)
				}
				<-time.After(time.Millisecond)
				synctest.Wait()
			}
		}
		refuse := func(uid string) { f.refusePod(pod, uid, "no", time.Minute) }
		seen("u")
		reported("at first", 0, "")
		refuse("another")
		if _, told := f.Take().Pods[pod]; told {
			t.Error("the refusal of a pod that has gone counts")
		}
		refuse("u")
		reported("when it is refused", 0, "no")
		reported("after a minute", time.Minute, "")
		refuse("u")
		reported("when it is refused again", 0, "no")
		<-time.After(time.Second)
		seen("u")
		reported("when it has changed", 0, "no")
		reported("soon after", time.Second, "")
		for range 20 {
			refuse("u")
			reported("when it is refused again and again", 0, "no")
			seen("u")
			reported("some time after it has changed", lastRetry+time.Millisecond, "")
		}
		refuse("u")
		reported("at last", 0, "no")
		seen("v")
		reported("its successor", 0, "")
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.refusals) != 0 {
			t.Errorf("left: %v", f.refusals)
		}
	})
}

// TestAWriterTellsOfRefusals: of attachments that the API server does not take, and not of their removal.
func TestAWriterTellsOfRefusals(t *testing.T) {
	w, _ := refusing(t, errTooLong, "u")
	told := 0
	w.refuse = func(pod model.PodKey, uid, why string, again time.Duration) {
		if told++; pod != key("a") || uid != "u" || why == "" || again <= 0 {
			t.Errorf("told of %v, %q: %q, %v", pod, uid, why, again)
		}
	}
	w.WriteAttachments(key("a"), "u", decision)
	w.attachments.next(t.Context())
	w.WriteAttachments(key("b"), "u", nil)
	w.attachments.next(t.Context())
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
