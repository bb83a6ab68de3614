package verdicts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

const (
	agentPort = 9411
	// verdictsReader is the ServiceAccount whose token agents are shown. It may do nothing else, so that who has an agent has no use for one.
	verdictsReader = "atoll-verdicts-reader"
	// tokenSeconds is how long a token is good: no API server gives one for less.
	tokenSeconds = 600
	// askedAtOnce is how many agents are asked at a time, and agentTime how long each may take.
	askedAtOnce = 16
	agentTime   = 15 * time.Second
	// maxVerdictBytes bounds one agent's answer.
	maxVerdictBytes = 64 << 20
)

// ErrNoAgents is the error of who asks for counts where no agent runs.
var ErrNoAgents = errors.New("there is no pod with " + snapshot.AgentLabel + " in namespace " + snapshot.AgentNamespace)

// Query says whom to ask, and which of their counts.
type Query struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Agents are the URLs of the agents to ask; without any, those of all nodes are asked by way of the API server.
	Agents []string
	// Network and Policy narrow the counts; empty: all. A policy is NAMESPACE/NAME, or NAME of one of the cluster.
	Network, Policy string
	// DropsOnly leaves out what was admitted.
	DropsOnly bool
}

// Count asks the agents what each policy's rules have admitted and dropped. Those that have not answered are in the value.
func Count(ctx context.Context, q Query) (Verdicts, error) {
	nodes, unanswered, err := askAgents(ctx, q)
	if err != nil {
		return Verdicts{}, err
	}
	result := newVerdicts(nodes, q)
	result.Unanswered = unanswered
	if result.isolates() {
		heard := &connect.LastWarning{}
		if objects, err := connect.ClusterObjects(ctx, q.Kubeconfig, heard); err == nil {
			result.explain(objects)
		} else {
			result.Unknown = heard.Explain(err).Error()
		}
	}
	return result, nil
}

// Verdicts are what the agents have counted.
type Verdicts struct {
	// Nodes is how many agents have answered.
	Nodes int `json:"nodes"`
	// Rows are sorted by Network, policy, direction, rule and node.
	Rows []Row `json:"verdicts"`
	// Isolated are the pods that isolation has dropped packets of, with the policies that isolate them. Unknown says why these
	// are not known.
	Isolated []IsolatedPod `json:"isolated,omitempty"`
	Unknown  string        `json:"unknown,omitempty"`
	// Unanswered says which agents have not answered, and why; nil when all have.
	Unanswered error `json:"-"`
}

// Row is what one rule has decided on one node.
type Row struct {
	Node string `json:"node"`
	model.VerdictCount
}

// IsolatedPod is a pod with packets that no policy allowed.
type IsolatedPod struct {
	// Pod is NAMESPACE/NAME; Direction is Egress or Ingress.
	Pod       string `json:"pod"`
	Direction string `json:"direction"`
	// Packets that were dropped.
	Packets uint64 `json:"packets"`
	// Policies that isolate the pod in that direction, as KIND/NAMESPACE/NAME, sorted.
	Policies []string `json:"policies"`
}

// explain names the policies that isolate the pods of which isolation has dropped something.
func (v *Verdicts) explain(objects model.Changes) {
	type podDirection struct{ pod, direction string }
	packets := map[podDirection]uint64{}
	for _, r := range v.Rows {
		if isIsolation(r.VerdictCount) {
			for pod, n := range r.Pods {
				packets[podDirection{pod, r.Direction}] += n
			}
		}
	}
	for key, n := range packets {
		pod, _ := policyrows.PodOf("Pod/" + key.pod)
		direction := model.PolicyIngress
		if key.direction == model.PolicyEgress.String() {
			direction = model.PolicyEgress
		}
		v.Isolated = append(v.Isolated, IsolatedPod{
			Pod: key.pod, Direction: key.direction, Packets: n, Policies: policyrows.Isolating(objects, pod, direction),
		})
	}
	slices.SortFunc(v.Isolated, func(a, b IsolatedPod) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Direction, b.Direction))
	})
}

// Verdict is the whole in one line, with what to do next when something was dropped.
func (v Verdicts) Verdict() string {
	var dropped uint64
	for _, r := range v.Rows {
		if r.Verdict == policyrows.VerdictWord(false) {
			dropped += r.Packets
		}
	}
	line := fmt.Sprintf("%s of %s; %s dropped", model.Count(len(v.Rows), "count"), model.Count(v.Nodes, "node"),
		model.Count(int(dropped), "packet"))
	switch {
	case dropped == 0:
		return line
	case v.Unknown != "":
		return line + ". Which policies isolate the pods is not known: " + v.Unknown
	case len(v.Isolated) == 0:
		return line + ". Next: atoll policy trace FROM TO --port PORT"
	case v.Isolated[0].Direction == model.PolicyEgress.String():
		return line + ". Next: atoll policy trace " + v.Isolated[0].Pod + " TO --port PORT"
	}
	return line + ". Next: atoll policy trace FROM " + v.Isolated[0].Pod + " --port PORT"
}

// readerToken is a token of the ServiceAccount that agents tell.
func readerToken(ctx context.Context, cfg *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	seconds := int64(tokenSeconds)
	token, err := client.CoreV1().ServiceAccounts(snapshot.AgentNamespace).CreateToken(ctx, verdictsReader, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount %s/%s, which agents are shown: %w", snapshot.AgentNamespace, verdictsReader, err)
	}
	return token.Status.Token, nil
}

// askAgents asks the agents; unanswered says which of them have not answered, and why.
func askAgents(ctx context.Context, q Query) (nodes []model.NodeVerdicts, unanswered, err error) {
	ask := make([]func(context.Context) (model.NodeVerdicts, error), 0, len(q.Agents))
	cfg, err := kube.UserConfig(q.Kubeconfig, connect.UserAgent)
	token := ""
	if err == nil {
		token, err = readerToken(ctx, cfg)
	}
	for _, url := range q.Agents {
		ask = append(ask, func(ctx context.Context) (model.NodeVerdicts, error) {
			out, failed := askAgent(ctx, url, token)
			if errors.Is(failed, errNoToken) {
				failed = errors.Join(failed, err)
			}
			return out, failed
		})
	}
	if len(q.Agents) == 0 {
		if cfg == nil {
			return nil, nil, err
		}
		daemons, listErr := kube.Daemons(ctx, cfg, snapshot.AgentNamespace, snapshot.AgentLabel)
		switch {
		case listErr != nil:
			return nil, nil, listErr
		case len(daemons) == 0:
			return nil, nil, ErrNoAgents
		case err != nil:
			return nil, nil, err
		}
		for _, d := range daemons {
			ask = append(ask, func(ctx context.Context) (model.NodeVerdicts, error) {
				address, stop, err := kube.Forward(ctx, cfg, d, agentPort)
				if err != nil {
					return model.NodeVerdicts{}, fmt.Errorf("agent of node %s: %w", d.Node, err)
				}
				defer stop()
				return askAgent(ctx, "http://"+address, token)
			})
		}
	}
	answers, failures := make([]model.NodeVerdicts, len(ask)), make([]error, len(ask))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, f := range ask {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, agentTime)
			defer cancel()
			answers[i], failures[i] = f(ctx)
			return nil
		})
	}
	_ = group.Wait() // each has an error of its own
	for i, a := range answers {
		if failures[i] == nil {
			nodes = append(nodes, a)
		}
	}
	return nodes, errors.Join(failures...), nil
}

// errNoToken is the error of who shows an agent no token.
var errNoToken = errors.New("agents tell whoever may get /verdicts, by a token")

func askAgent(ctx context.Context, url, token string) (model.NodeVerdicts, error) {
	var out model.NodeVerdicts
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/verdicts", nil)
	if err != nil {
		return out, fmt.Errorf("ask agent at %s: %w", url, err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, fmt.Errorf("ask agent: %w", err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxVerdictBytes))
	switch {
	case err != nil:
		return out, fmt.Errorf("ask agent at %s: %w", url, err)
	case reply.StatusCode == http.StatusUnauthorized && token == "":
		return out, fmt.Errorf("agent at %s: %w", url, errNoToken)
	case reply.StatusCode != http.StatusOK:
		return out, fmt.Errorf("agent at %s: %s: %s", url, reply.Status,
			snapshot.Printable(strings.TrimSpace(string(body[:min(len(body), 1024)]))))
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("agent at %s: read answer: %w", url, err)
	}
	return out, nil
}

// newVerdicts are the counts that were asked for, in order.
func newVerdicts(nodes []model.NodeVerdicts, q Query) Verdicts {
	var out []Row
	for _, n := range nodes {
		for _, v := range n.Verdicts {
			_, name, _ := strings.Cut(v.Policy, "/")
			// The guard's count is of all Networks together.
			if q.Network != "" && v.Network != "" && v.Network != q.Network || q.Policy != "" && q.Policy != name && q.Policy != v.Policy ||
				q.DropsOnly && (v.Verdict != policyrows.VerdictWord(false) || v.Packets == 0) {
				continue
			}
			out = append(out, Row{Node: n.Node, VerdictCount: v})
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(a.Network, b.Network), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Direction, b.Direction),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Verdict, b.Verdict),
		)
	})
	return Verdicts{Rows: out, Nodes: len(nodes)}
}

// isolates reports whether isolation has dropped anything of a pod.
func (v Verdicts) isolates() bool {
	return slices.ContainsFunc(v.Rows, func(r Row) bool { return isIsolation(r.VerdictCount) && len(r.Pods) > 0 })
}

func isIsolation(v model.VerdictCount) bool {
	return v.Policy == nb.Isolation || v.Rule == nb.RuleIsolation
}
