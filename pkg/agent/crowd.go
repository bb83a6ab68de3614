package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
)

const (
	// crowdEvery is how often is looked at how many connections pods have, and crowdTime how long a look may take: together less than ten
	// seconds.
	crowdEvery = 5 * time.Second
	crowdTime  = 3 * time.Second
)

// followCrowds tells pods that have as many connections inside their Network as they may, until ctx ends.
func (a *Agent) followCrowds(ctx context.Context) error {
	tick := time.NewTicker(crowdEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		reason := ""
		if err := a.lookAtCrowds(ctx); err != nil && ctx.Err() == nil {
			reason = err.Error()
		}
		if reason != "" && reason != said {
			a.log.Warn("pods' connections are not counted", "error", reason)
		}
		said = reason
	}
}

// lookAtCrowds looks once.
func (a *Agent) lookAtCrowds(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, crowdTime)
	defer cancel()
	zones, err := a.ovs.Zones(ctx)
	if err != nil {
		return err
	}
	crowded := 0
	for port, zone := range zones {
		words := strings.Split(port, "/")
		if !zone.Full() || len(words) < 2 {
			continue
		}
		p, lives := a.pods.get(model.PodKey{Namespace: words[0], Name: words[1]})
		if !lives {
			continue
		}
		crowded++
		a.teller.warn(ctx, p.key, p.uid, model.Problem{Reason: model.ReasonConnectionsRefused, Message: fmt.Sprintf(
			"the pod has %d connections inside its Network, as many as a pod may have that it has begun or others have begun with it: more are refused", zone.Count)})
	}
	a.metrics.crowded.Set(float64(crowded))
	return nil
}
