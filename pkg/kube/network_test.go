package kube

import (
	"fmt"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestCountsOfManyNetworksDoNotCrowd(t *testing.T) {
	const networks, rounds = 1000, 5
	p := newPace()
	start := time.Unix(0, 0)
	writes, latest := map[time.Time]bool{}, map[int]time.Time{}
	for round := range rounds {
		now := start.Add(time.Duration(round) * time.Second)
		for i := range networks {
			s := model.NetworkStatus{Phase: model.Ready, Pods: int64(round)}
			delay := p.delay(fmt.Sprint(i), "uid", s, now)
			if round == 0 && delay != 0 {
				t.Fatalf("the first status of Network %d waits %v", i, delay)
			}
			if round > 0 {
				if delay < 0 || delay > countsEvery+networks*countsApart {
					t.Fatalf("counts of Network %d wait %v", i, delay)
				}
				at := now.Add(delay)
				if last := latest[i]; !at.Equal(last) && writes[at] {
					t.Fatalf("counts of Network %d are written in the same moment as another's", i)
				}
				latest[i], writes[at] = at, true
			}
		}
	}
	// What is not a count goes at once, however many counts wait.
	if delay := p.delay("7", "uid", model.NetworkStatus{Phase: model.Degraded}, start.Add(rounds*time.Second)); delay != 0 {
		t.Errorf("another phase waits %v", delay)
	}
	if delay := p.delay("8", "uid", model.NetworkStatus{Phase: model.Ready, Isolation: &model.Isolation{}},
		start.Add(rounds*time.Second)); delay != 0 {
		t.Errorf("another isolation waits %v", delay)
	}
}
