// Package reach asks a pod of each Network of the two-networks example what it reaches beyond the pods of its Network:
// names, Services, the Kubernetes API and the outside. It compares the answers with what the cluster's objects say.
//
// In flow the pods and Services of two namespaces, out flows a table of questions, one column per namespace. What a name
// must be is read from the API and never from the answers.
package reach

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Subject is a namespace whose pods are asked.
type Subject struct {
	Namespace string
	// Other is the namespace whose names must not exist here.
	Other string
	// Egress: its pods reach the outside.
	Egress bool
}

// Outside is what stands for the rest of the world.
type Outside struct {
	Address netip.Addr
	// Name leads to Address, among others.
	Name string
	// UID is what netprobe says there.
	UID string
}

// Answer is what one question gave in one namespace.
type Answer struct {
	Got  string
	Want string
}

// OK reports whether it is as expected.
func (a Answer) OK() bool { return a.Got == a.Want }

// Row is one question.
type Row struct {
	Question string
	// Answers by namespace, in the order of the subjects.
	Answers []Answer
}

// asker asks the pods of one namespace.
type asker struct {
	exec    matrix.Exec
	client  kubernetes.Interface
	subject Subject
	outside Outside
	pods    []corev1.Pod
	from    string
}

// Ask asks one pod of the Deployment web in each namespace.
func Ask(ctx context.Context, exec matrix.Exec, client kubernetes.Interface, subjects []Subject, outside Outside) ([]Row, error) {
	var rows []Row
	for _, subject := range subjects {
		a := asker{exec: exec, client: client, subject: subject, outside: outside}
		if err := a.find(ctx); err != nil {
			return nil, err
		}
		for i, ask := range []func(context.Context) (string, Answer, error){
			a.service, a.headless, a.stranger, a.dial, a.api, a.outsideName, a.egress,
		} {
			question, answer, err := ask(ctx)
			if err != nil {
				return nil, fmt.Errorf("ask %s/%s for %s: %w", subject.Namespace, a.from, question, err)
			}
			if i == len(rows) {
				rows = append(rows, Row{Question: question})
			}
			rows[i].Answers = append(rows[i].Answers, answer)
		}
	}
	return rows, nil
}

func (a *asker) find(ctx context.Context) error {
	list, err := a.client.CoreV1().Pods(a.subject.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	a.pods = list.Items
	for _, p := range a.of("web") {
		a.from = p.Name
		return nil
	}
	return fmt.Errorf("namespace %s has no running pod of web", a.subject.Namespace)
}

// of are the Ready pods of an app.
func (a *asker) of(app string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(a.pods), func(p corev1.Pod) bool {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		return p.Labels["app"] != app || p.DeletionTimestamp != nil || !ready
	})
}

const (
	nothing = "does not exist"
	refused = "not reached"
)

func (a *asker) service(ctx context.Context) (string, Answer, error) {
	const question = "name web"
	service, err := a.client.CoreV1().Services(a.subject.Namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return question, Answer{}, err
	}
	return a.name(ctx, question, "web", strings.Join(service.Spec.ClusterIPs, " "))
}

func (a *asker) headless(ctx context.Context) (string, Answer, error) {
	const question = "name db (headless)"
	var own []netip.Addr
	for _, p := range a.of("db") {
		address, err := matrix.AddressOf(&p)
		if err != nil {
			return question, Answer{}, err
		}
		own = append(own, address)
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return a.name(ctx, question, "db", join(own))
}

func (a *asker) stranger(ctx context.Context) (string, Answer, error) {
	return a.name(ctx, "the other's name web", "web."+a.subject.Other+".svc.cluster.local.", nothing)
}

func (a *asker) outsideName(ctx context.Context) (string, Answer, error) {
	want := nothing
	if a.subject.Egress {
		want = a.outside.Address.String()
	}
	question, answer, err := a.name(ctx, "name "+a.outside.Name, a.outside.Name+".", want)
	if a.subject.Egress && slices.Contains(strings.Fields(answer.Got), want) {
		answer.Got = want
	}
	return question, answer, err
}

// name looks a name up.
func (a *asker) name(ctx context.Context, question, name, want string) (string, Answer, error) {
	var found []wire.Name
	if err := a.run(ctx, &found, "resolve", name); err != nil {
		return question, Answer{}, err
	}
	if len(found) != 1 {
		return question, Answer{}, fmt.Errorf("got %d answers", len(found))
	}
	got := join(found[0].Addresses)
	switch {
	case found[0].Error != "":
		got = found[0].Error
	case got == "":
		got = nothing
	}
	return question, Answer{Got: got, Want: want}, nil
}

// dial connects to the virtual address of web: any pod of web in the same namespace may answer.
func (a *asker) dial(ctx context.Context) (string, Answer, error) {
	const question = "Service web, TCP"
	service, err := a.client.CoreV1().Services(a.subject.Namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return question, Answer{}, err
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return question, Answer{}, fmt.Errorf("read its address: %w", err)
	}
	result, err := a.probe(ctx, wire.Target{Address: address, Protocol: wire.TCP, Port: uint16(service.Spec.Ports[0].Port)})
	if err != nil {
		return question, Answer{}, err
	}
	const own = "one of its own"
	answer := Answer{Got: refused, Want: own}
	if result.Answered {
		answer.Got = "somebody else: " + result.Answerer.String()
		if slices.ContainsFunc(a.of("web"), func(p corev1.Pod) bool { return string(p.UID) == result.Answerer.UID }) {
			answer.Got = own
		}
	}
	return question, answer, nil
}

// api lists the pods of the namespace from inside a pod.
func (a *asker) api(ctx context.Context) (string, Answer, error) {
	want := make([]string, 0, len(a.pods))
	for _, p := range a.pods {
		want = append(want, p.Name)
	}
	slices.Sort(want)
	return "Kubernetes API, its pods", Answer{Got: a.listed(ctx, want), Want: fmt.Sprintf("%d pods", len(want))}, nil
}

// listed is what a pod of the namespace gets from the API.
func (a *asker) listed(ctx context.Context, want []string) string {
	var names []string
	if err := a.run(ctx, &names, "api"); err != nil {
		return err.Error()
	}
	if !slices.Equal(names, want) {
		return fmt.Sprintf("%d pods, others than the API says", len(names))
	}
	return fmt.Sprintf("%d pods", len(names))
}

// egress dials the outside.
func (a *asker) egress(ctx context.Context) (string, Answer, error) {
	question := "outside, " + a.outside.Address.String()
	result, err := a.probe(ctx, wire.Target{Address: a.outside.Address, Protocol: wire.TCP})
	if err != nil {
		return question, Answer{}, err
	}
	const answered = "answers"
	answer := Answer{Got: refused, Want: refused}
	if a.subject.Egress {
		answer.Want = answered
	}
	if result.Answered {
		answer.Got = "somebody else: " + result.Answerer.String()
		if result.Answerer.UID == a.outside.UID {
			answer.Got = answered
		}
	}
	return question, answer, nil
}

func (a *asker) probe(ctx context.Context, target wire.Target) (wire.Result, error) {
	token, err := matrix.NewToken()
	if err != nil {
		return wire.Result{}, err
	}
	target.Token = token
	results, err := matrix.Probe(ctx, a.exec, a.subject.Namespace, a.from, []wire.Target{target})
	if err != nil {
		return wire.Result{}, err
	}
	return results[token], nil
}

func (a *asker) run(ctx context.Context, into any, args ...string) error {
	out, err := a.exec(ctx, a.subject.Namespace, a.from, nil, append([]string{matrix.Program}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read the answer %q: %w", out, err)
	}
	return nil
}

func join(addresses []netip.Addr) string {
	texts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " ")
}
