package tenants

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// The heads of the tables.
const (
	ToPods     = "pod to pod"
	ToServices = "pod to Service"
)

const (
	// notReached: nobody got it, nobody answered. noName: it does not exist.
	notReached = "-"
	noName     = "no"
	// servicePort is that of the example's Services.
	servicePort = 80
)

// addresses and names are those that every pod dials and looks up.
func addresses() []string { return []string{"10.8.0.10", "10.9.0.10"} }

func names() []string {
	return []string{"store.platform", "stores.platform", "api.acme-svc", "api.umbrella-svc"}
}

var protocols = [...]wire.Protocol{wire.ICMP, wire.TCP, wire.UDP}

// observer asks pods.
type observer struct {
	exec   matrix.Exec
	pods   []corev1.Pod
	faces  map[netip.Addr]string
	prefix string
	// answers are those to each pod's probes, by token, and seen what came to each pod, in their order.
	answers []map[string]wire.Result
	seen    []map[string]netip.Addr
	found   [][]wire.Name
}

// Observe asks every pod of the example about every other one, by the address that Kubernetes knows, and about Services and their names.
func Observe(ctx context.Context, exec matrix.Exec, kube kubernetes.Interface) ([]Table, error) {
	list, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	o := observer{exec: exec, pods: list.Items, faces: map[netip.Addr]string{}}
	slices.SortFunc(o.pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range o.pods {
		face, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			return nil, fmt.Errorf("read address of pod %s: %w", p.Name, err)
		}
		o.faces[face] = p.Name
	}
	if o.prefix, err = matrix.NewToken(); err != nil {
		return nil, err
	}
	n := len(o.pods)
	o.answers, o.seen, o.found = make([]map[string]wire.Result, n), make([]map[string]netip.Addr, n), make([][]wire.Name, n)
	if err := o.each(ctx, o.ask); err != nil {
		return nil, err
	}
	// Only now is every token where it will ever be.
	if err := o.each(ctx, o.look); err != nil {
		return nil, err
	}
	return []Table{o.toPods(), o.toServices()}, nil
}

// each does something with all pods at once.
func (o *observer) each(ctx context.Context, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.pods {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// ask has a pod dial all others and all Services, and look up names.
func (o *observer) ask(ctx context.Context, i int) error {
	from := o.pods[i]
	var targets []wire.Target
	for j, to := range o.pods {
		for _, protocol := range protocols {
			if i != j {
				targets = append(targets, wire.Target{
					Address: netip.MustParseAddr(to.Status.PodIP), Protocol: protocol, Token: o.token(i, to.Name, protocol),
				})
			}
		}
	}
	for _, a := range addresses() {
		targets = append(targets, wire.Target{
			Address: netip.MustParseAddr(a), Protocol: wire.TCP, Port: servicePort, Token: o.token(i, a, wire.TCP),
		})
	}
	var err error
	if o.answers[i], err = matrix.Probe(ctx, o.exec, from.Namespace, from.Name, targets); err != nil {
		return err
	}
	command := []string{matrix.Program, "resolve"}
	for _, name := range names() {
		command = append(command, name+".svc.cluster.local.")
	}
	out, err := o.exec(ctx, from.Namespace, from.Name, nil, command...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &o.found[i]); err != nil || len(o.found[i]) != len(names()) {
		return fmt.Errorf("read names of %s: %w: %s", from.Name, err, out)
	}
	return nil
}

// look asks a pod what came to it.
func (o *observer) look(ctx context.Context, i int) error {
	sightings, err := matrix.Seen(ctx, o.exec, o.pods[i].Namespace, o.pods[i].Name, o.prefix)
	if err != nil {
		return err
	}
	o.seen[i] = map[string]netip.Addr{}
	for _, s := range sightings {
		o.seen[i][s.Token] = s.From.Unmap()
	}
	return nil
}

func (o *observer) token(from int, to string, protocol wire.Protocol) string {
	return fmt.Sprintf("%s-%d-%s-%s", o.prefix, from, to, protocol)
}

// known is an address as the page has it.
func (o *observer) known(a netip.Addr) string {
	if pod, is := o.faces[a]; is {
		return "face of " + pod
	}
	return a.String()
}

func (o *observer) toPods() Table {
	out := Table{Columns: []string{ToPods}}
	for _, p := range o.pods {
		out.Columns = append(out.Columns, p.Name)
	}
	for i, from := range o.pods {
		row := []string{from.Name}
		for j, to := range o.pods {
			if i == j {
				row = append(row, "self")
				continue
			}
			var by []string
			for _, protocol := range protocols {
				got, source := o.outcome(i, o.token(i, to.Name, protocol))
				if got == to.Name {
					got = source
				} else if got != notReached {
					got += " got it from " + source
				}
				by = append(by, got)
			}
			if cell := by[0]; by[1] == cell && by[2] == cell {
				by = by[:1]
			}
			row = append(row, strings.Join(by, ", "))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (o *observer) toServices() Table {
	out := Table{Columns: slices.Concat([]string{ToServices}, addresses(), names())}
	for i, from := range o.pods {
		row := []string{from.Name}
		for _, a := range addresses() {
			got, source := o.outcome(i, o.token(i, a, wire.TCP))
			if got != notReached {
				got += " sees " + source
			}
			row = append(row, got)
		}
		for _, found := range o.found[i] {
			row = append(row, o.name(found))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// outcome is which pod got a probe, and from whom it seemed to come.
func (o *observer) outcome(from int, token string) (got, source string) {
	answered := o.answers[from][token].Answered
	for i, seen := range o.seen {
		if source, is := seen[token]; is {
			if !answered {
				return o.pods[i].Name, o.known(source) + ", whose answer was lost"
			}
			return o.pods[i].Name, o.known(source)
		}
	}
	if answered {
		return "somebody", "nobody knows where"
	}
	return notReached, ""
}

// name is what a name leads to.
func (o *observer) name(found wire.Name) string {
	switch {
	case found.Error != "":
		return found.Error
	case len(found.Addresses) == 0:
		return noName
	}
	var texts []string
	for _, a := range found.Addresses {
		texts = append(texts, o.known(a))
	}
	return strings.Join(texts, " ")
}
