package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Spec says between which pods packets are sent, and what.
type Spec struct {
	// Networks are the Networks whose pods send and receive; with a Tenant, all of the tenant's Networks.
	Networks []string
	Tenant   string
	// Protocol is icmp, tcp or udp; Port the one that is dialled, 0 for icmp.
	Protocol model.Protocol
	Port     uint16
	// PodsPer is how many pods of each Network there are at most.
	PodsPer int
	// Timeout is how long the answer to a packet is waited for.
	Timeout time.Duration
	// Settle is how long it waits before it asks again about a path that is not as expected.
	Settle time.Duration
}

// Matrix is what packets between pods do, beside what is expected of them.
type Matrix struct {
	Tenant   string   `json:"tenant,omitempty"`
	Networks []string `json:"networks"`
	Protocol string   `json:"protocol"`
	Port     uint16   `json:"port,omitempty"`
	// Pods are the rows and the columns, by Networks and names.
	Pods []Pod `json:"pods"`
	// Paths are from each pod to each other, in the order of Pods.
	Paths []Path `json:"paths"`
	// LeftOut are Networks of which some pods are not among Pods.
	LeftOut []LeftOut `json:"leftOut,omitempty"`
	// Differing and Untried count Paths.
	Differing int `json:"differing"`
	Untried   int `json:"untried"`
}

// Pod is a pod of a matrix.
type Pod struct {
	// Name is NAMESPACE/NAME.
	Name      string   `json:"name"`
	Network   string   `json:"network"`
	Node      string   `json:"node,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// LeftOut says how many pods of a Network are left out, of how many.
type LeftOut struct {
	Network string `json:"network"`
	Pods    int    `json:"pods"`
	All     int    `json:"all"`
}

// Outcome is what becomes of packets on a path.
type Outcome string

// The outcomes.
const (
	// Answered: by each address that is dialled. Silent: by none. PartlyAnswered: by some.
	Answered       Outcome = "answered"
	Silent         Outcome = "silent"
	PartlyAnswered Outcome = "partly"
	// Untried: the path could not be tried. Why has the reason.
	Untried Outcome = "untried"
)

// Path is what was found of one path.
type Path struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Expected follows from OVN's rows and the cluster's objects, Observed from packets.
	Expected Outcome `json:"expected"`
	Observed Outcome `json:"observed"`
	// Differs: both are known, and are not the same.
	Differs bool `json:"differs"`
	// Verdict is why so is expected, and Why what became of packets that were not answered, or why nothing was asked or sent.
	Verdict string `json:"verdict,omitempty"`
	Why     string `json:"why,omitempty"`
	// Next is what to do, where it differs.
	Next string `json:"next,omitempty"`
}

// The bounds of a matrix.
const (
	// maxMatrixPods bounds the pods of all Networks together: 40 of them have 1,560 paths.
	maxMatrixPods = 40
	// matrixAtOnce bounds the paths that are tried at the same time: one user may have so many pings.
	matrixAtOnce = 4
	// matrixLooks is how often a path is tried before it is said that it is not as expected.
	matrixLooks = 3
	// busyLooks bounds the repeats when other users have all pings, or an agent is busy. busyPause is the time between two.
	busyLooks = 20
	busyPause = 250 * time.Millisecond
)

// Check returns an error if the Spec is not valid.
func (s Spec) Check() error {
	switch {
	case s.Tenant != "" && len(s.Networks) > 0:
		return errors.New("--tenant: name Networks, or a tenant")
	case s.Tenant == "" && len(s.Networks) == 0:
		return errors.New("name a Network, two of them, or a --tenant. Next: atoll networks")
	case len(s.Networks) > 2:
		return errors.New("name two Networks at most")
	case len(s.Networks) == 2 && s.Networks[0] == s.Networks[1]:
		return fmt.Errorf("both Networks are %s", s.Networks[0])
	case !slices.Contains([]model.Protocol{model.TCP, model.UDP, trace.ICMP}, s.Protocol):
		return fmt.Errorf("--protocol: %q is none of icmp, tcp and udp", s.Protocol)
	case s.Protocol == trace.ICMP && s.Port != 0:
		return errors.New("--port: icmp has no ports. Next: --protocol tcp or udp")
	case s.Protocol != trace.ICMP && s.Port == 0:
		return fmt.Errorf("--protocol: name the --port that is dialled by %s", s.Protocol)
	case s.PodsPer < 1 || s.PodsPer > maxMatrixPods:
		return fmt.Errorf("--pods-per: %d is not between 1 and %d", s.PodsPer, maxMatrixPods)
	}
	return nil
}

// Of sends packets between the pods of Networks, and compares what becomes of them with what Explain says. Of a path that could
// not be tried it says why; its error is that none could. done is told how many of all paths are tried.
func Of(ctx context.Context, r *client.Remote, s Spec, done func(tried, all int)) (Matrix, error) {
	out := Matrix{Tenant: s.Tenant, Protocol: string(s.Protocol), Port: s.Port}
	if err := s.Check(); err != nil {
		return out, err
	}
	if err := matrixPods(ctx, r, s, &out); err != nil {
		return out, err
	}
	for _, from := range out.Pods {
		for _, to := range out.Pods {
			if from.Name != to.Name {
				out.Paths = append(out.Paths, Path{From: from.Name, To: to.Name})
			}
		}
	}
	byName := make(map[string]Pod, len(out.Pods))
	for _, p := range out.Pods {
		byName[p.Name] = p
	}
	t := matrixTrial{r, s, byName}
	if err := t.tryPaths(ctx, out.Paths, done); err != nil {
		return out, err
	}
	for _, p := range out.Paths {
		if p.Differs {
			out.Differing++
		}
		if p.Expected == Untried || p.Observed == Untried {
			out.Untried++
		}
	}
	return out, nil
}

// matrixTrial tries the paths of one matrix.
type matrixTrial struct {
	*client.Remote
	spec Spec
	pods map[string]Pod
}

// tryPaths tries all paths, some at the same time, and stops when the API does not answer at all.
func (t matrixTrial) tryPaths(ctx context.Context, paths []Path, done func(tried, all int)) error {
	trying, ctx := errgroup.WithContext(ctx)
	trying.SetLimit(matrixAtOnce)
	var (
		mu    sync.Mutex
		tried int
	)
	for i := range paths {
		trying.Go(func() error {
			err := t.tryPath(ctx, &paths[i])
			mu.Lock()
			defer mu.Unlock()
			tried++
			done(tried, len(paths))
			return err
		})
	}
	return trying.Wait()
}

// tryPath finds what is expected and what happens. Its error says that the API does not answer at all.
func (t matrixTrial) tryPath(ctx context.Context, p *Path) error {
	for look := range matrixLooks {
		if look > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(t.spec.Settle):
			}
		}
		if err := t.lookAtPath(ctx, p); err != nil || !p.Differs {
			return err
		}
	}
	p.Next = fmt.Sprintf("atoll explain %s %s", p.From, p.To)
	if t.spec.Port != 0 {
		p.Next += fmt.Sprintf(" --port %d", t.spec.Port)
	}
	if t.spec.Protocol != model.TCP {
		p.Next += " --protocol " + string(t.spec.Protocol)
	}
	return nil
}

// lookAtPath asks once what is expected, and tries once what happens.
func (t matrixTrial) lookAtPath(ctx context.Context, p *Path) error {
	s := t.spec
	*p = Path{From: p.From, To: p.To, Expected: Untried, Observed: Untried}
	expected, err := t.Explain(ctx, api.ExplanationSpec{From: p.From, To: p.To, Protocol: string(s.Protocol), Port: s.Port})
	if err != nil {
		p.Why = err.Error()
		return silence(ctx, err)
	}
	p.Verdict = expected.Verdict()
	wanted := newTally()
	for _, w := range expected.Ways {
		wanted.count(addressOf(w.Dialled), w.Reached)
	}
	p.Expected = wanted.outcome()
	seen := newTally()
	var whys []string
	err = patiently(ctx, func() error {
		seen, whys = newTally(), nil
		namespace, name, _ := strings.Cut(p.From, "/")
		return t.Ping(ctx, model.PodKey{Namespace: namespace, Name: name}, api.PodPingSpec{
			To: p.To, Protocol: string(s.Protocol), Port: s.Port, Count: 1, First: 1, Size: 56, Interval: meta.Duration{Duration: time.Second},
			Timeout: meta.Duration{Duration: s.Timeout},
		}, func(reply api.PodPingReply) {
			seen.count(reply.Address, reply.Answered || t.arrived(p, reply))
			if why := reply.Address + ": " + reply.Why; reply.Why != "" && !slices.Contains(whys, why) {
				whys = append(whys, why)
			}
		})
	})
	if err != nil {
		p.Why = err.Error()
		return silence(ctx, err)
	}
	slices.Sort(whys)
	p.Observed, p.Why = seen.outcome(), strings.Join(whys, "; ")
	if p.Observed == Untried {
		p.Why = "no packet was sent"
	}
	p.Differs = p.Expected != Untried && p.Observed != Untried && wanted.differs(seen)
	return nil
}

// arrived reports whether a packet that was not answered as it should be came to the pod all the same. Within a Network nobody
// but the pod refuses: what drops a packet there says nothing. What leaves it, a porthole may refuse.
func (t matrixTrial) arrived(p *Path, reply api.PodPingReply) bool {
	from, to := t.pods[p.From], t.pods[p.To]
	return from.Network == to.Network && slices.Contains(to.Addresses, reply.Address) && strings.HasPrefix(reply.Why, "refused:")
}

// silence returns the error if it means that the API answers no request at all, and nil if it is about the one path.
func silence(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, unsent := errors.AsType[*client.UnsentError](err); unsent {
		return err
	}
	if _, unexplained := errors.AsType[*client.UnexplainedError](err); unexplained {
		return err
	}
	return nil
}

// patiently asks again while other users' requests are in the way.
func patiently(ctx context.Context, ask func() error) error {
	err := ask()
	for range busyLooks {
		if _, busy := errors.AsType[*client.BusyError](err); !busy {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(busyPause):
		}
		err = ask()
	}
	return err
}
