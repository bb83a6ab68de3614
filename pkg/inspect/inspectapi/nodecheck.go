package inspectapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// AllNodes says which nodes there are. A snapshot's sources do.
type AllNodes interface {
	AgentNodes(ctx context.Context) ([]snapshot.AgentNode, error)
}

// CheckAgents asks the agent of a node whether what is on it is what should be.
type CheckAgents func(ctx context.Context, on snapshot.AgentNode, q nodeapi.CheckQuestion) (api.NodeCheckStatus, error)

// CheckAgentsBy asks them with the certificate of atoll-inspect that certs.Keep has put into a directory.
func CheckAgentsBy(dir string) CheckAgents {
	return func(ctx context.Context, on snapshot.AgentNode, q nodeapi.CheckQuestion) (api.NodeCheckStatus, error) {
		return nodeapi.Client{Node: on.Name, Addresses: on.Addresses, TLS: certs.AgentClient(dir, on.Name)}.Check(ctx, q)
	}
}

// checkBounds bound answers about nodes.
type checkBounds struct {
	// all is how long nodes have to answer, and one how long each has when all are asked.
	all, one time.Duration
	// atOnce is how many are asked at the same time.
	atOnce int
	// told is how many differences an answer has.
	told int
}

func defaultCheckBounds() checkBounds {
	return checkBounds{all: 40 * time.Second, one: 15 * time.Second, atOnce: 64, told: 10_000}
}

// checker has nodes checked.
type checker struct {
	*handler
	nodes  AllNodes
	agents CheckAgents
	bounds checkBounds
	crowd  *turns.Turns
}

func newChecker(h *handler, nodes AllNodes, agents CheckAgents) *checker {
	return &checker{
		handler: h, nodes: nodes, agents: agents, bounds: defaultCheckBounds(), crowd: turns.New("checks of nodes",
			turns.Bounds{Every: 32, Each: 8}),
	}
}

// ServeHTTP implements http.Handler.
func (c *checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := c.answer(w, r)
	if err != nil {
		c.fail(w, err)
		return
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		c.fail(w, err)
		return
	}
	write(w, http.StatusOK, answer)
}

// answer finds out, as far as who asks may have that done.
func (c *checker) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), c.bounds.all)
	defer cancel()
	name := r.PathValue("name")
	asked, left, err := c.comes(w, r, maxQuestion, func(asked request) error { return c.mayCheck(ctx, asked.who, r.Method, name) })
	if err != nil {
		return nil, err
	}
	left()
	who := asked.who
	leave, err := enter(c.crowd, asked.share)
	if err != nil {
		return nil, err
	}
	defer leave()
	q := nodeapi.CheckQuestion{User: who.Name}
	if r.Method == http.MethodPut {
		if err := readRepair(asked.text, name); err != nil {
			return nil, err
		}
		q.Repair = true
	}
	nodes, err := c.nodes.AgentNodes(ctx)
	if err != nil {
		return nil, err
	}
	c.log.Info("nodes are checked", "user", who.Name, "node", name, "repair", q.Repair)
	if name == "" {
		return api.NodeCheckList{TypeMeta: typeOf("NodeCheckList"), Items: c.all(ctx, nodes, q)}, nil
	}
	i := slices.IndexFunc(nodes, func(n snapshot.AgentNode) bool { return n.Name == name })
	if i < 0 {
		return nil, apierrors.NewNotFound(groupResource(api.ResourceNodeChecks), name)
	}
	return c.one(ctx, nodes[i], q), nil
}

// mayCheck is an error unless somebody may: to have a node repaired is to update it, too.
func (c *checker) mayCheck(ctx context.Context, who access.User, method, name string) error {
	verbs := []string{"get"}
	if name == "" {
		verbs = []string{"list"}
	}
	if method == http.MethodPut {
		verbs = append(verbs, "update")
	}
	for _, verb := range verbs {
		what := attributes{verb: verb, resource: api.ResourceNodeChecks, name: name}
		allowed, err := c.authz.may(ctx, who, what)
		if err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		if !allowed {
			return forbidden(who, what)
		}
	}
	return nil
}

// readRepair reads what an update is for.
func readRepair(text []byte, name string) error {
	var in api.NodeCheck
	if err := readQuestion(text, &in); err != nil {
		return err
	}
	if !in.Spec.Repair || in.Name != name {
		return apierrors.NewBadRequest("a NodeCheck is updated to have its node repaired: with its name, and spec.repair")
	}
	return nil
}

// one asks the agent of a node.
func (c *checker) one(ctx context.Context, node snapshot.AgentNode, q nodeapi.CheckQuestion) api.NodeCheck {
	out := api.NodeCheck{TypeMeta: typeOf("NodeCheck")}
	out.Name, out.Spec.Repair = node.Name, q.Repair
	var err error
	if out.Status, err = c.agents(ctx, node, q); err != nil {
		out.Status = api.NodeCheckStatus{Silent: err.Error()}
	}
	return out
}

// all asks the agents of all nodes, some at the same time. Those that could not be asked in time are named with that.
func (c *checker) all(ctx context.Context, nodes []snapshot.AgentNode, q nodeapi.CheckQuestion) []api.NodeCheck {
	out, next := make([]api.NodeCheck, len(nodes)), make(chan int)
	var asking sync.WaitGroup
	for range min(c.bounds.atOnce, len(nodes)) {
		asking.Go(func() {
			for i := range next {
				ctx, cancel := context.WithTimeout(ctx, c.bounds.one)
				out[i] = c.one(ctx, nodes[i], q)
				cancel()
			}
		})
	}
	for i := range nodes {
		next <- i
	}
	close(next)
	asking.Wait()
	left := c.bounds.told
	for i := range out {
		s := &out[i].Status
		if more := len(s.Differences) - left; more > 0 {
			s.Differences, s.More = s.Differences[:left], s.More+more
		}
		left -= len(s.Differences)
	}
	slices.SortFunc(out, func(a, b api.NodeCheck) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
