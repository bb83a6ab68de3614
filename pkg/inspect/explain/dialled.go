package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Dialled returns the addresses that a pod dials to reach the other end of a question, each once. The asker may see as much of
// other tenants as in Answer. Its error is a question.Error, with the reason, when the asker may not ask, or when nothing is
// dialled.
func Dialled(
	ctx context.Context, s snapshot.Sources, from model.PodKey, spec api.ExplanationSpec, may question.MayAsk,
) (out []netip.Addr, err error) {
	spec.From, spec.Raw = from.String(), false
	err = asked(ctx, s, spec, may, func(e *explainer, limits *visibility.Limits) (err error) {
		out, err = e.dialled(limits)
		return err
	})
	return out, err
}

// dialled returns the addresses that the sender dials. The sender must be a pod.
func (e *explainer) dialled(limits *visibility.Limits) (out []netip.Addr, err error) {
	from, err := e.sender()
	switch {
	case err != nil:
		return nil, err
	case !from.isPod():
		return nil, fmt.Errorf("%s is no pod", from)
	case from.port == nil:
		return nil, fmt.Errorf("%s has no port in OVN and sends nothing. Next: atoll pod %s", from, from.pod)
	case e.q.To.Outside:
		return nil, fmt.Errorf("%s: name the address", question.OutsideWord)
	case e.q.Protocol == trace.ICMP && e.objects.Services[e.q.To.Service] != nil:
		return nil, fmt.Errorf("%s: the address of a Service answers no echo requests. Next: name a port", e.q.To)
	}
	targets, ended, err := e.targets(from)
	if err != nil {
		return nil, err
	}
	if len(ended) > 0 {
		told := Explanation{From: e.q.From.String(), To: e.q.To.String(), Protocol: string(e.q.Protocol), Port: e.q.Port, Ways: ended}
		if limits != nil {
			told = toldBySight(limits, told)
		}
		// It begins with that it is stopped.
		return nil, fmt.Errorf("nothing is sent: %s", strings.TrimPrefix(told.Verdict(), "Stopped: "))
	}
	for _, t := range targets {
		if slices.Contains(somewhere(), t.to) && e.q.To.Name != "" {
			return nil, fmt.Errorf("%s is none of the cluster's names. Next: name its address", e.q.To)
		}
		if _, has := from.as(t.to); has && !slices.Contains(out, t.to) {
			out = append(out, t.to)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s and %s have no IP family in common", e.q.From, e.q.To)
	}
	return out, nil
}
