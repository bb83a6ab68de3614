package follow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/google/go-cmp/cmp"
)

// TestWatchThatEndsIsResumed: the API server ends watches, one after an event and others before any; each goes on at once from where
// the last one was, and nothing is listed again.
func TestWatchThatEndsIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := func(name, version string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		}
		lists, asked := 0, []string{}
		watches := []func(*watch.RaceFreeFakeWatcher){
			func(w *watch.RaceFreeFakeWatcher) { w.Add(space("a", "5")); w.Stop() },
			func(w *watch.RaceFreeFakeWatcher) { w.Stop() },
			func(w *watch.RaceFreeFakeWatcher) { w.Stop() },
			func(w *watch.RaceFreeFakeWatcher) { w.Add(space("b", "7")) },
		}
		lister := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists++
				return &corev1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: "3"}}, nil
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewRaceFreeFake()
				watches[len(asked)](w)
				asked = append(asked, options.ResourceVersion)
				return w, nil
			},
		}
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		start := time.Now()
		r := cache.NewReflectorWithOptions(resumed(withoutWatchList{lister}), &corev1.Namespace{}, store, cache.ReflectorOptions{})
		go func() { r.RunWithContext(ctx); close(ended) }()
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return len(store.ListKeys()) == 2, nil
		})
		if err != nil {
			t.Errorf("wait for what the watches tell: %v", err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if lists != 1 {
			t.Errorf("%d lists", lists)
		}
		if diff := cmp.Diff([]string{"3", "5", "5", "5"}, asked); diff != "" {
			t.Errorf("watches from versions (-want +got):\n%s", diff)
		}
		stop()
		<-ended
	})
}

// TestWatchOfAListEnds: a watch that begins with a list ends with it, and goes on from the list's version once that is complete;
// one that is told why ends.
func TestWatchOfAListEnds(t *testing.T) {
	yes := true
	space := func(version string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: version, ResourceVersion: version, Annotations: annotations}}
	}
	added := watch.Event{Type: watch.Added, Object: space("9", nil)}
	complete := watch.Event{Type: watch.Bookmark, Object: space("4", map[string]string{metav1.InitialEventsAnnotationKey: "true"})}
	expired := watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410}}
	for name, test := range map[string]struct {
		watches [][]watch.Event
		want    int      // events that arrive
		from    []string // versions that were asked for
	}{
		"before the list is complete": {[][]watch.Event{{added}}, 1, []string{""}},
		"after":                       {[][]watch.Event{{added, complete}, {expired}}, 3, []string{"", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			lister := resumed(&cache.ListWatch{WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewRaceFreeFake()
				for _, e := range test.watches[len(asked)] {
					w.Action(e.Type, e.Object)
				}
				w.Stop()
				asked = append(asked, options.ResourceVersion)
				return w, nil
			}})
			w, err := cache.ToListerWatcherWithContext(lister).WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &yes})
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for range w.ResultChan() {
				got++
			}
			w.Stop()
			if diff := cmp.Diff(test.from, asked); diff != "" || got != test.want {
				t.Errorf("%d events, want %d; watches from versions (-want +got):\n%s", got, test.want, diff)
			}
		})
	}
}

// withoutWatchList is a lister that lists before it watches.
type withoutWatchList struct{ cache.ListerWatcher }

// IsWatchListSemanticsUnSupported tells the reflector.
func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }
