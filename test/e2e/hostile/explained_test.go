//go:build e2e

package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	inspectapi "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/explained"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

var explainPaths = flag.Int("paths", 0, "how many paths are explained and tried by packets; 0: 80 in make test, 140 in make test-all")

// pathsToExplain is how many paths are explained: four rounds of all kinds of questions are enough for the gate.
func pathsToExplain() int {
	switch {
	case *explainPaths > 0:
		return *explainPaths
	case tier.All():
		return 140
	}
	return 80
}

const (
	// asking is how many questions are asked at once.
	asking = 8
	// again is how many times more a path is tried that differs, each after a pause: rows and packets are not looked at in the same moment.
	again      = 2
	againPause = time.Second
)

// explainer asks, sends and compares.
type explainer struct {
	stage     explained.Stage
	questions []explained.Question
	said      []explained.Said
	saw       []explained.Saw
	// retried are the paths that differed at first.
	retried map[int]bool
}

// explainsPackets: of paths of all kinds that a seed draws, in a world that is settled, explain says what packets do, and of
// OVN's part what ovn-trace says.
func explainsPackets(t *testing.T, world between.World, seed uint64, count int) {
	t.Helper()
	openWays(t, world, seed)
	e := &explainer{stage: stageOf(t, world), retried: map[int]bool{}}
	e.questions = explained.Draw(seed, e.stage, count)
	e.said, e.saw = make([]explained.Said, count), make([]explained.Saw, count)
	began := time.Now()
	wrong := e.compare(t)
	took := time.Since(began)
	for i, what := range wrong {
		text, _ := json.MarshalIndent(e.said[i].Status, "", "  ")
		t.Errorf("%s: %s\n%s\nexplained: %s\n%s\nseen: %+v", e.questions[i].Kind, e.questions[i], what, e.said[i].Status.Verdict, text, e.saw[i])
	}
	traced := e.traces(t)
	programs := e.programs(t)
	if len(wrong) == 0 {
		e.control(t, seed)
	}
	t.Attr("explained", fmt.Sprint(count))
	t.Logf("explain and packets: %s; %d retried, %d disagreements, in %s; %s; %d by the program",
		explained.Count(e.questions[:count], e.said[:count]), len(e.retried), len(wrong), took.Round(time.Second), traced, programs)
}

// compare asks and sends, what differs up to twice again, and returns what differs still.
func (e *explainer) compare(t *testing.T) map[int]string {
	t.Helper()
	pending := make([]int, len(e.questions))
	for i := range pending {
		pending[i] = i
	}
	var wrong map[int]string
	for round := 0; ; round++ {
		if err := e.round(t.Context(), pending); err != nil {
			t.Fatal(err)
		}
		wrong = map[int]string{}
		for _, i := range pending {
			if what := explained.Judge(e.stage, e.questions[i], e.said[i], e.saw[i]); what != "" {
				wrong[i] = what
			}
		}
		pending = slices.Sorted(maps.Keys(wrong))
		if len(pending) == 0 || round == again {
			return wrong
		}
		for _, i := range pending {
			e.retried[i] = true
			t.Logf("again: %s: %s", e.questions[i], wrong[i])
		}
		select {
		case <-time.After(againPause):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// round asks some questions, looks their names up and sends.
func (e *explainer) round(ctx context.Context, which []int) error {
	group, asked := errgroup.WithContext(ctx)
	group.SetLimit(asking)
	for _, i := range which {
		group.Go(func() (err error) {
			e.said[i], err = explain(asked, e.questions[i].Spec)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := e.lookUp(ctx, which); err != nil {
		return err
	}
	return e.send(ctx, which)
}

// explain posts a question as any client does. An error means that nobody has answered.
func explain(ctx context.Context, spec inspectapi.ExplanationSpec) (explained.Said, error) {
	question := inspectapi.Explanation{Spec: spec}
	question.APIVersion, question.Kind = inspectapi.GroupVersion().String(), "Explanation"
	body, err := json.Marshal(question)
	if err != nil {
		return explained.Said{}, err
	}
	answer, err := env.Clients.Kube.CoreV1().RESTClient().Post().AbsPath(
		"/apis/"+inspectapi.GroupVersion().String()+"/"+inspectapi.ResourceExplanations).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
	if status := apierrors.APIStatus(nil); apierrors.IsBadRequest(err) && errors.As(err, &status) {
		return explained.Said{Err: status.Status().Message}, nil
	}
	if err != nil {
		return explained.Said{}, fmt.Errorf("explain %+v: %w: %s", spec, err, answer)
	}
	err = json.Unmarshal(answer, &question)
	return explained.Said{Status: question.Status}, err
}

// lookUp has each pod look up the names that it dials.
func (e *explainer) lookUp(ctx context.Context, which []int) error {
	names := map[int][]string{}
	for _, i := range which {
		if q := e.questions[i]; q.Name != "" && !slices.Contains(names[q.From], q.Name) {
			names[q.From] = append(names[q.From], q.Name)
		}
	}
	found := map[int]map[string]wire.Name{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookingUp)
	for from, asked := range names {
		group.Go(func() error {
			p := e.stage.Pods[from]
			out, err := env.Exec(ctx, p.Namespace, p.Name, nil, append([]string{matrix.Program, "resolve"}, asked...)...)
			if err != nil {
				return err
			}
			var said []wire.Name
			if err := json.Unmarshal(out, &said); err != nil || len(said) != len(asked) {
				return fmt.Errorf("read %s: %w", out, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[from] = map[string]wire.Name{}
			for _, n := range said {
				found[from][n.Name] = n
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, i := range which {
		q := &e.questions[i]
		if q.Name == "" {
			continue
		}
		e.saw[i].Found = found[q.From][q.Name]
		q.Dial = e.stage.Spoken(q.From, e.saw[i].Found.Addresses)
	}
	return nil
}

// send sends to all that is dialled: pods with one exec each, nodes and outside by sockets in their network.
func (e *explainer) send(ctx context.Context, which []int) error {
	var paths []random.Path
	var of []int
	for _, i := range which {
		q := e.questions[i]
		e.saw[i].Dialled = map[netip.Addr]random.Seen{}
		for _, a := range q.Dial {
			if q.From < 0 {
				result, err := sendFrom(ctx, q.Place, wire.Target{Address: a, Protocol: wire.Protocol(q.Spec.Protocol), Port: q.Spec.Port})
				if err != nil {
					return err
				}
				e.saw[i].Dialled[a] = random.Seen{Result: result}
				continue
			}
			paths, of = append(paths, random.Path{From: q.From, Address: a, Protocol: wire.Protocol(q.Spec.Protocol), Port: q.Spec.Port}), append(of,
				i)
		}
	}
	seen, err := random.Run(ctx, env.Exec, e.stage.Pods, paths)
	for k, i := range of {
		e.saw[i].Dialled[paths[k].Address] = seen[k]
	}
	return err
}

// programs has the program explain some of the paths: it says the same, by its exit status, too.
func (e *explainer) programs(t *testing.T) int {
	t.Helper()
	most, asked := 20, 0
	if tier.All() {
		most = 40
	}
	for i := 0; i < len(e.questions) && asked < most; i += max(1, len(e.questions)/most) {
		if e.said[i].Err != "" {
			continue
		}
		asked++
		q := e.questions[i]
		out, err := env.Box.Exec(t.Context(), controlPlane,
			append([]string{env.Options.Bin + "/atoll", "--kubeconfig=" + env.Box.Kubeconfig()}, strings.Fields(q.String() + " -o json")[1:]...)...)
		var said struct {
			Reached bool   `json:"reached"`
			Verdict string `json:"verdict"`
		}
		if decoded := json.NewDecoder(strings.NewReader(string(out))).Decode(&said); decoded != nil {
			t.Errorf("%s: %v: %v: %s", q, err, decoded, out)
			continue
		}
		if want := e.said[i].Status; said.Reached != want.Reached || said.Verdict != want.Verdict || (err == nil) != said.Reached {
			t.Errorf("%s: the program says %t, %s, and ends with %v; the API has said %t, %s", q, said.Reached, said.Verdict, err, want.Reached,
				want.Verdict)
		}
	}
	return asked
}

// control: a policy stops what was reached. By the explanation of before, what is seen then is wrong; by the one of then, it is right.
func (e *explainer) control(t *testing.T, seed uint64) {
	t.Helper()
	i, to := e.stoppable(0)
	if asked := len(e.questions); i < 0 {
		// Of few paths none may be to a pod that is reached: as many again of the same draw.
		e.questions = append(e.questions, explained.Draw(seed, e.stage, 2*asked)[asked:]...)
		e.said, e.saw = append(e.said, make([]explained.Said, asked)...), append(e.saw, make([]explained.Saw, asked)...)
		further := make([]int, asked)
		for k := range further {
			further[k] = asked + k
		}
		if err := e.round(t.Context(), further); err != nil {
			t.Fatal(err)
		}
		i, to = e.stoppable(asked)
	}
	if i < 0 {
		t.Fatal("there is no path for the control")
	}
	q, before := e.questions[i], e.said[i]
	lift := isolate(t, to.Namespace)
	cluster.Eventually(t, cluster.Patience, "the control: a policy stops "+q.String(), func(ctx context.Context) error {
		if err := e.round(ctx, []int{i}); err != nil {
			return err
		}
		if what := explained.Judge(e.stage, q, e.said[i], e.saw[i]); what != "" {
			return errors.New(what)
		}
		if v := e.said[i].Verdict(); v != explained.Stopped {
			return fmt.Errorf("it is %s: %s", v, e.said[i].Status.Verdict)
		}
		if explained.Judge(e.stage, q, before, e.saw[i]) == "" {
			t.Fatalf("%s: what was said before the policy agrees with what is seen under it", q)
		}
		return nil
	})
	lift()
}

// stoppable is the first path, from one on, that a policy can stop, and the pod at its end: one that is reached, in the Network
// of its namespace. It is -1 when there is none.
func (e *explainer) stoppable(from int) (int, random.Placed) {
	for i := from; i < len(e.questions); i++ {
		q := e.questions[i]
		if q.Kind != explained.ToPod || e.said[i].Verdict() != explained.Reached || q.Spec.Protocol == string(wire.ICMP) {
			continue
		}
		at := slices.IndexFunc(e.stage.Pods, func(p random.Placed) bool { return p.UID == q.Meant })
		if to := e.stage.Pods[at]; to.Namespace == to.Network {
			return i, to
		}
	}
	return -1, random.Placed{}
}

// stageOf is a world with the cast, and what lies around both.
func stageOf(t *testing.T, world between.World) explained.Stage {
	t.Helper()
	api := env.APIServer(t)
	s := explained.Stage{
		Pods: world.Placed(), Nodes: map[string][]netip.Addr{}, Anywhere: anywhere(), Outside: outsideServers(), OutsideName: "www.outside.test",
		APIServer: api,
	}
	for _, c := range cast() {
		p := member(t, c.Namespace+"/"+c.Name)
		in := cluster.AttachmentOf(t, p)
		s.Pods = append(s.Pods, random.Placed{
			Pod: random.Pod{Namespace: p.Namespace, Name: p.Name, Network: in.Network, Node: p.Spec.NodeName}, UID: string(p.UID),
			Own: cluster.AddressesOfPod(t, p), Faces: in.Faces,
		})
		if p.Name == "weak" {
			s.Mute = append(s.Mute, string(p.UID))
		}
	}
	for _, service := range world.Services {
		s.Services = append(s.Services, explained.Service{
			Namespace: service.Network, Name: "web", Addresses: slices.Concat(service.ClusterIPs, service.Own),
		})
	}
	for _, n := range env.Box.Nodes() {
		s.Nodes[n] = env.NodeAddresses(t, n)
	}
	s.API = serviceAddresses(t, corev1.NamespaceDefault, "kubernetes")
	return s
}
