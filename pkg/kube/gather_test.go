package kube

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestGatheredKeepsOnlyWhatMatters plays any history. A reader that applies all that it took knows the current state. It is given no
// key that means nothing to it. Nothing is stored that neither exists nor is known to the reader.
func TestGatheredKeepsOnlyWhatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGathered[int](func(a, b *int) bool { return *a == *b })
		there, taken := map[int]int{}, map[int]int{}
		take := func() {
			for k, v := range g.take() {
				if _, believed := taken[k]; v == nil && !believed {
					t.Fatalf("%d has gone, and was never handed on", k)
				}
				delete(taken, k)
				if v != nil {
					taken[k] = *v
				}
			}
			if diff := cmp.Diff(there, taken); diff != "" {
				t.Fatalf("the taker is mistaken (-there +taken):\n%s", diff)
			}
		}
		key := rapid.IntRange(0, 4)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.IntRange(0, 2).Draw(t, "value")
				g.set(k, &v)
				there[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				g.set(k, nil)
				delete(there, k)
			},
			"list": func(t *rapid.T) {
				k := key.Draw(t, "key")
				g.keepOnly(map[int]*int{k: nil})
				for other := range there {
					if other != k {
						delete(there, other)
					}
				}
			},
			"take": func(*rapid.T) { take() },
			"": func(t *rapid.T) {
				for k := range g.waits {
					_, is := there[k]
					if _, believed := taken[k]; !is && !believed {
						t.Fatalf("%d is held for nobody", k)
					}
				}
				if len(g.known) != len(there) || len(g.handed) != len(taken) {
					t.Fatalf("%d known of %d, %d handed on of %d", len(g.known), len(there), len(g.handed), len(taken))
				}
			},
		})
		take()
	})
}

// TestStandbyHoldsOnlyWhatIsThere is a controller that waits for its turn while pods come and go.
func TestStandbyHoldsOnlyWhatIsThere(t *testing.T) {
	f, pods, _, _ := deaf(t)
	must(t, pods.Add(testPod("stays", "0")))
	for i := range 1000 {
		p := testPod(fmt.Sprint("p", i), fmt.Sprint(i))
		must(t, pods.Add(p))
		must(t, pods.Delete(p))
	}
	if len(f.pods.waits) != 1 || len(f.pods.known) != 1 || len(f.pods.handed) != 0 {
		t.Errorf("1 pod is there; %d wait, %d known, %d handed on", len(f.pods.waits), len(f.pods.known), len(f.pods.handed))
	}
	wantPods(t, f, map[string]string{"stays": "0"})
}
