package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// crowdEvery is how often is looked at how many connections pods have, and crowdTime how long a look may take: together less than ten
	// seconds.
	crowdEvery = 5 * time.Second
	crowdTime  = 3 * time.Second
)

// followCrowds tells pods that have as many connections as they may, until ctx ends.
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
	inside, insideErr := a.crowdedInside(ctx)
	past, pastErr := a.crowdedPast()
	a.metrics.crowded.WithLabelValues(crowdInside).Set(float64(len(inside)))
	a.metrics.crowded.WithLabelValues(crowdPast).Set(float64(len(past)))
	for _, r := range append(inside, past...) {
		a.teller.warn(ctx, r.key, r.uid, model.Problem{Reason: model.ReasonConnectionsRefused, Message: r.message})
	}
	return errors.Join(insideErr, pastErr)
}

// Where a pod has too many connections.
const (
	crowdInside = "inside"
	crowdPast   = "past"
)

// refusal is what a pod is told.
type refusal struct {
	pod
	message string
}

// crowdedInside are the pods that have as many connections inside their Network as they may.
func (a *Agent) crowdedInside(ctx context.Context) ([]refusal, error) {
	zones, err := a.ovs.Zones(ctx)
	if err != nil {
		return nil, err
	}
	var out []refusal
	for port, zone := range zones {
		key, of := model.ParsePortName(port)
		if !zone.Full() || !of {
			continue
		}
		if p, lives := a.pods.get(key.Pod); lives {
			out = append(out, refusal{
				p,
				fmt.Sprintf(
					"the pod has %d connections inside its Network, as many as a pod may have that it has begun or others have "+
						"begun with it: more are refused", zone.Count),
			})
		}
	}
	return out, nil
}

// crowdedPast are the pods of which connections past their Network were refused of late.
func (a *Agent) crowdedPast() ([]refusal, error) {
	most := a.world.MaxConnections()
	if most == 0 {
		return nil, nil
	}
	sources, failed := a.portholes.Crowded()
	var out []refusal
	if len(sources) == 0 {
		return nil, failed
	}
	for _, p := range a.pods.all() {
		n, err := attachment.Parse(p.attachments, p.uid, model.DefaultInterface)
		if err != nil {
			continue
		}
		from := portholes.Source{NetworkUID: n.NetworkUID}
		if len(n.Faces) == 0 {
			from.NetworkUID = ""
		}
		if slices.ContainsFunc(n.Addresses, func(own netip.Prefix) bool {
			from.Address = own.Addr()
			_, refused := sources[from]
			return refused
		}) {
			out = append(out, refusal{
				p, fmt.Sprintf("the pod has as many connections to what is outside its Network as a pod may have, which is %d: more are refused", most),
			})
		}
	}
	return out, failed
}
