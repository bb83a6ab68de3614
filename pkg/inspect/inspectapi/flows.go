package inspectapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// FlowPlans says how questions about flows are answered. A snapshot's sources do.
type FlowPlans interface {
	Flows(ctx context.Context, q flows.Question, sight flows.Sight) (*flows.Plan, error)
}

// FlowAgents asks the agent of a node for flows.
type FlowAgents func(ctx context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error

// FlowAgentsBy asks them with the certificate of atoll-inspect that certs.Keep has put into a directory.
func FlowAgentsBy(dir string) FlowAgents {
	return func(ctx context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error {
		return nodeapi.Client{Node: on.Name, Addresses: on.Addresses, TLS: certs.AgentClient(dir, on.Name)}.Flows(ctx, q, each)
	}
}

// flowBounds bound answers about flows.
type flowBounds struct {
	// gather bounds the time in which nodes send what they keep. atOnce bounds the nodes asked at the same time.
	gather time.Duration
	atOnce int
	// told bounds the kept flows in an answer.
	told int
	// second is how long followed flows wait for earlier ones of other nodes; batch bounds how many wait. beat is the interval of the
	// signs of life to a follower.
	second, beat time.Duration
	batch        int
	// again is how often a follower's rights are checked anew, and its plan is renewed.
	again time.Duration
	// lasts bounds a request that follows. The follower continues with a new request.
	lasts time.Duration
}

func defaultFlowBounds() flowBounds {
	return flowBounds{
		gather: 8 * time.Second, atOnce: 32, told: nodeapi.MaxFlows, second: time.Second, beat: 5 * time.Second, batch: 4096,
		again: 15 * time.Second, lasts: 10 * time.Minute,
	}
}

// flower serves flows.
type flower struct {
	*handler
	plans  FlowPlans
	agents FlowAgents
	bounds flowBounds
	// followers limits requests that follow, which last for minutes. crowd limits the others: a Tenant that uses all of its followers
	// can still ask.
	followers, crowd *turns.Turns
}

func newFlower(h *handler, plans FlowPlans, agents FlowAgents) *flower {
	bounds := turns.Bounds{Every: 16, Each: 4, Kept: 4}
	h.flower = &flower{
		handler: h, plans: plans, agents: agents, bounds: defaultFlowBounds(),
		followers: turns.New("followers of flows", bounds), crowd: turns.New("questions about flows", bounds),
	}
	return h.flower
}

// ServeHTTP implements http.Handler.
func (f *flower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var q flows.Question
	var sight flows.Sight
	asked, left, err := f.comes(w, r, 0, func(asked request) (err error) {
		q, sight, err = f.admit(ctx, asked.who, r)
		return err
	})
	if err != nil {
		f.fail(w, err)
		return
	}
	left()
	who, places := asked.who, f.crowd
	if q.Follow {
		places = f.followers
	}
	leave, err := enter(places, asked.share)
	if err != nil {
		f.fail(w, err)
		return
	}
	defer leave()
	plan, err := f.plans.Flows(ctx, q, sight)
	if err != nil {
		f.fail(w, flowProblem(err))
		return
	}
	control := http.NewResponseController(w)
	// The request has been read. Its answer may take longer than the read timeout.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		f.fail(w, err)
		return
	}
	f.log.Info("flows are asked for", "user", who.Name, "networks", q.Networks, "namespaces", q.Namespaces, "follow", q.Follow)
	out := &flowLines{w: w, control: control}
	if !q.Follow {
		f.once(ctx, asked, plan, out)
		return
	}
	ctx, old := context.WithTimeoutCause(ctx, f.bounds.lasts, errOld)
	defer old()
	f.follow(ctx, out, &following{flower: f, asked: asked, plan: plan, again: func(ctx context.Context) (*flows.Plan, error) {
		q, sight, err := f.admit(ctx, who, r)
		if err != nil {
			return nil, err
		}
		return f.plans.Flows(ctx, q, sight)
	}})
}

// flowProblem converts an error to the one that the user sees.
func flowProblem(err error) error {
	if off, ok := errors.AsType[*flows.OffError](err); ok {
		return apierrors.NewConflict(groupResource(api.ResourceFlows), "", errors.New(off.Error()))
	}
	if absent, ok := errors.AsType[*question.AbsentError](err); ok {
		return apierrors.NewBadRequest(absent.Error())
	}
	return err
}

// admit reads a question and checks that the user may ask it. sight says which other ends of flows the user may see.
func (f *flower) admit(ctx context.Context, who access.User, r *http.Request) (q flows.Question, sight flows.Sight, err error) {
	query := r.URL.Query()
	follow := query.Get(api.FlowFollow)
	q.Follow = follow != "" && follow != "false" && follow != "0"
	verb := "list"
	if q.Follow {
		verb = "watch"
	}
	name, namespace := r.PathValue("name"), r.PathValue("namespace")
	what := attributes{verb: verb, resource: api.ResourceFlows}
	switch {
	case namespace != "":
		what = attributes{verb: verb, resource: api.ResourcePodFlows, namespace: namespace}
	case name != "":
		what = attributes{verb: "get", resource: api.ResourceFlows, name: name}
	}
	if err := f.must(ctx, who, what); err != nil {
		return q, sight, err
	}
	// A user who may get the flows of any Network sees everything.
	every, err := f.allows(ctx, who, attributes{verb: "get", resource: api.ResourceFlows})
	if err != nil {
		return q, sight, err
	}
	if !every {
		sight = f.sight(ctx, who)
	}
	if err := readFlowQuery(query, &q); err != nil {
		return q, sight, err
	}
	switch {
	case namespace != "":
		q.Networks, q.Namespaces = nil, []string{namespace}
	case name != "" && q.Follow:
		err = apierrors.NewBadRequest(
			fmt.Sprintf("a Network is followed at %s?%s=true&%s=%s", api.ResourceFlows, api.FlowFollow, api.FlowNetwork, name))
	case name != "":
		q.Networks = []string{name}
	case len(q.Networks) > 0:
		for _, name := range q.Networks {
			if err := f.must(ctx, who, attributes{verb: "get", resource: api.ResourceFlows, name: name}); err != nil {
				return q, sight, err
			}
		}
	case !every:
		q.Networks, err = f.ownNetworks(ctx, who)
	}
	return q, sight, err
}

// sight returns what a user may see who may not see everything.
func (f *flower) sight(ctx context.Context, who access.User) flows.Sight {
	return flows.Sight{
		Network: func(name string) (bool, error) {
			return f.authz.may(ctx, who, attributes{verb: "get", resource: api.ResourceFlows, name: name})
		},
		Namespace: func(name string) (bool, error) {
			return f.authz.may(ctx, who, attributes{verb: "list", resource: api.ResourcePods, namespace: name})
		},
	}
}

// must returns an error unless the user has the right.
func (f *flower) must(ctx context.Context, who access.User, what attributes) error {
	allowed, err := f.allows(ctx, who, what)
	if err == nil && !allowed {
		err = forbidden(who, what)
	}
	return err
}

func (f *flower) allows(ctx context.Context, who access.User, what attributes) (bool, error) {
	allowed, err := f.authz.may(ctx, who, what)
	if err != nil {
		return false, apierrors.NewServiceUnavailable(err.Error())
	}
	return allowed, nil
}

// ownNetworks returns the Networks whose flows the user may get, among those of the Tenants that the user administers.
func (f *flower) ownNetworks(ctx context.Context, who access.User) ([]string, error) {
	all, err := f.answers.Networks(ctx)
	if err != nil {
		return nil, err
	}
	all, err = ownObjects(f.handler, request{Request: (&http.Request{}).WithContext(ctx), who: who}, api.ResourceFlows, all,
		func(n *api.Network) (string, string) { return n.Name, n.Status.Tenant })
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all))
	for _, n := range all {
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return nil, apierrors.NewBadRequest("there is no Network whose flows you may see. Next: ask for those of a namespace")
	}
	return names, nil
}

// readFlowQuery reads from the query which of the permitted flows the user wants.
func readFlowQuery(query url.Values, q *flows.Question) error {
	for _, parameter := range []string{"labelSelector", "fieldSelector"} {
		if query.Get(parameter) != "" {
			return apierrors.NewBadRequest(api.GroupName + " knows no " + parameter)
		}
	}
	q.Networks, q.Namespaces, q.Drops = query[api.FlowNetwork], query[api.FlowNamespace], query.Get(api.FlowDrops) == "true"
	if slices.Contains(q.Networks, "") || slices.Contains(q.Namespaces, "") || len(q.Networks) > maxNamed || len(q.Namespaces) > maxNamed {
		return apierrors.NewBadRequest(fmt.Sprintf("name at most %d Networks and namespaces", maxNamed))
	}
	if text := query.Get(api.FlowPodName); text != "" {
		key, ok := model.ParsePortName(text)
		if !ok || key.Pod.String() != text {
			return apierrors.NewBadRequest(fmt.Sprintf("%q is no pod: NAMESPACE/NAME", text))
		}
		q.Pod = key.Pod
	}
	return readFlowTime(query, q)
}

// readFlowTime reads for which time the user wants flows. q.Follow must be set already.
func readFlowTime(query url.Values, q *flows.Question) error {
	for name, to := range map[string]*time.Duration{api.FlowSince: &q.Since, api.FlowUntil: &q.Until, api.FlowAgain: &q.Again} {
		if text := query.Get(name); text != "" {
			age, err := time.ParseDuration(text)
			if err != nil || age <= 0 {
				return apierrors.NewBadRequest(fmt.Sprintf("%s: %q is no duration, as 10m", name, text))
			}
			*to = age
		}
	}
	if q.Again > nodeapi.MaxAgain || q.Again > 0 && !q.Follow {
		return apierrors.NewBadRequest(fmt.Sprintf("%s is for who follows, and at most %s", api.FlowAgain, nodeapi.MaxAgain))
	}
	if q.Follow && q.Until > 0 {
		return apierrors.NewBadRequest("who follows what comes does not end in the past")
	}
	if q.Follow && q.Since == 0 {
		// Only flows from now on.
		q.Since = time.Nanosecond
	}
	return nil
}

// maxNamed bounds how many Networks and namespaces a question names.
const maxNamed = 64

// asks returns the question for an agent.
func asks(asked request, plan *flows.Plan, limit int) nodeapi.FlowsQuestion {
	q := nodeapi.FlowsQuestion{
		User: asked.who.Name, Account: asked.share, All: plan.Question.Networks == nil && plan.Question.Namespaces == nil, Flows: plan.Question,
	}
	q.Flows.Limit = limit
	return q
}

// refused reports whether an error says that the user lacks a right.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) }
