package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

func TestAwaitWakesForItsPodOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := model.PodKey{Namespace: "red", Name: "one"}
		s := newPods()
		done := make(chan error, 1)
		go func() {
			p, _, err := s.await(t.Context(), cni.PodRef{Namespace: "red", Name: "one", UID: "new"}, "eth0")
			if err == nil && p.uid != "new" {
				t.Errorf("got the pod with UID %s", p.uid)
			}
			done <- err
		}()
		for _, step := range []struct {
			name string
			pod  pod
		}{
			{"another pod", pod{key: model.PodKey{Namespace: "blue", Name: "one"}, uid: "new", attachments: goodAnnotation}},
			{"the pod before it", pod{key: key, uid: "old", attachments: goodAnnotation}},
			{"without attachment", pod{key: key, uid: "new"}},
			{"with one that is nonsense", pod{key: key, uid: "new", attachments: "[{}]"}},
		} {
			s.set(step.pod)
			synctest.Wait()
			if len(done) > 0 {
				t.Fatalf("%s: served (%v)", step.name, <-done)
			}
		}
		s.set(pod{key: key, uid: "new", attachments: goodAnnotation})
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := s.waiting.Len(); n > 0 {
			t.Errorf("%d pods are still watched", n)
		}
	})
}

func TestAwaitEndsWhenThePodGoes(t *testing.T) {
	t.Parallel()
	key := model.PodKey{Namespace: "red", Name: "one"}
	for _, test := range []struct {
		name string
		end  func(*pods)
		says string
	}{
		{"deletion begins", func(s *pods) { s.set(pod{key: key, uid: "new", deleting: true}) }, "is being deleted"},
		{"it is gone", func(s *pods) { s.remove(key, "new") }, "was deleted meanwhile"},
		{"a successor", func(s *pods) { s.set(pod{key: key, uid: "newer", attachments: goodAnnotation}) }, "was deleted meanwhile"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newPods()
			s.set(pod{key: key, uid: "new"})
			done := make(chan error, 1)
			go func() {
				_, _, err := s.await(t.Context(), cni.PodRef{Namespace: "red", Name: "one", UID: "new"}, "eth0")
				done <- err
			}()
			synctest.Wait()
			if len(done) > 0 {
				t.Fatalf("%s: ended before (%v)", test.name, <-done)
			}
			test.end(s)
			if err := <-done; err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: error %v, want one with %q", test.name, err, test.says)
			}
		})
	}
}

func TestAwaitSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	ref := cni.PodRef{Namespace: "red", Name: "one", UID: "new"}
	for _, test := range []struct {
		name string
		pod  *pod
		says []string
	}{
		{"no pod", nil, []string{"API server has not shown this pod"}},
		{"another UID", &pod{key: ref.Key(), uid: "old"}, []string{"UID old", "asks for new"}},
		{
			"no attachment", &pod{key: ref.Key(), uid: "new"}, []string{
				attachment.ErrNone.Error(), "kubectl describe pod -n red one", "atoll-controller's log",
			},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newPods()
			if test.pod != nil {
				s.set(*test.pod)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errEnough)
			defer cancel()
			_, _, err := s.await(ctx, ref, "eth0")
			for _, says := range append(test.says, errEnough.Error()) {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v does not say %q", test.name, err, says)
				}
			}
		})
	}
}

func TestStaticPodIsKnownByItsMirror(t *testing.T) {
	t.Parallel()
	p := pod{key: model.PodKey{Namespace: "red", Name: "one"}, uid: "object", staticUID: "hash"}
	for uid, want := range map[string]bool{"object": true, "hash": true, "": false, "else": false} {
		if got := p.is(cni.PodRef{Namespace: "red", Name: "one", UID: uid}); got != want {
			t.Errorf("UID %q: %t", uid, got)
		}
	}
	if (pod{key: p.key, uid: "object"}).is(cni.PodRef{Namespace: "red", Name: "one"}) {
		t.Error("an empty UID names a pod")
	}
}

func TestWatchKeepsPodsApart(t *testing.T) {
	t.Parallel()
	a := &Agent{pods: newPods(), nudge: wake.NewSignal(), log: slog.New(slog.DiscardHandler)}
	object := func(uid string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "red", Name: "one", UID: types.UID(uid),
			Annotations: map[string]string{model.AnnotationAttachments: uid, "large": strings.Repeat("x", 1000)},
			Labels:      map[string]string{"app": "x"},
		}}
	}
	watch := follow.Kind[*metav1.PartialObjectMetadata, podID, pod]{Key: idOf, Read: readPod, Sink: a.seesPods()}.Source().Store
	replace := func(objects ...any) {
		if err := watch.Replace(objects, ""); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(object any) {
		if err := watch.Delete(object); err != nil {
			t.Fatal(err)
		}
	}
	replace(object("old"))
	replace(object("new"))
	// The deletion of the old one may be seen late.
	remove(object("old"))
	if p, found := a.pods.get(model.PodKey{Namespace: "red", Name: "one"}); !found || p.uid != "new" || p.attachments != "new" {
		t.Errorf("got %+v", p)
	}
	if _, found := a.pods.getByUID("old"); found {
		t.Error("the old pod is still there")
	}
	remove(object("new"))
	if len(a.pods.byKey)+len(a.pods.byUID) > 0 {
		t.Error("pods are left")
	}
}

// errEnough ends contexts of tests.
var errEnough = errors.New("gave up after all")

const goodAnnotation = `[{"podUID":"new","interface":"eth0","network":"red","subnet":"a","mac":"0a:58:0a:00:00:05",` +
	`"addresses":["10.0.0.5/16","fd00::5/64"],"gateways":["10.0.0.1","fe80::1"]}]`

// uidOf is the UID of a Network of these tests.
func uidOf(network string) string { return "uid-of-" + network }
