//go:build integration

package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Pods that come together do not get into each other's way, whatever becomes of each.
func TestManyPodsAtOnce(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	const count = 24
	var all sync.WaitGroup
	var mu sync.Mutex
	kept := map[string]bool{}
	var came []string
	for i := range count {
		p := newPod(t, a, fmt.Sprintf("p%d", i), byte(10+i))
		came = append(came, p.request.ContainerID)
		all.Go(func() {
			// Twice at once: a runtime that lost its first answer asks again.
			var twice sync.WaitGroup
			for range 2 {
				twice.Go(func() {
					if _, err := a.Add(t.Context(), p.request); err != nil {
						t.Error(err)
					}
				})
			}
			if err := a.sweep(t.Context()); err != nil {
				t.Error(err)
			}
			twice.Wait()
			if i%2 == 0 {
				if err := a.Del(t.Context(), p.request); err != nil {
					t.Error(err)
				}
				return
			}
			if err := a.Check(t.Context(), p.request); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			kept[p.hostName()] = true
		})
	}
	all.Wait()
	ports := strings.Fields(n.vsctl("list-ports", "br-int"))
	if len(ports) != count/2 {
		t.Errorf("%d ports, want %d", len(ports), count/2)
	}
	for _, name := range ports {
		if !kept[name] {
			t.Errorf("port %s is left", name)
		}
	}
	a.wantFree(t, came...)
}

// wantFree expects that no request for any of the containers is in flight.
func (a *Agent) wantFree(t *testing.T, containers ...string) {
	t.Helper()
	for _, container := range containers {
		release, free := a.locks.Try(container)
		if !free {
			t.Errorf("the lock of container %s is held", container)
			continue
		}
		release()
	}
}
