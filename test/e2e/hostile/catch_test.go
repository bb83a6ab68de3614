//go:build e2e

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/wait"
)

// gone takes a policy out for the rest of a test, which is about what holds without it.
func gone(t *testing.T, policies ...defence) {
	t.Helper()
	for _, p := range policies {
		t.Cleanup(p.out(t))
	}
}

// astray lets a pod dial somebody, whom it does not reach if the attack succeeds.
func astray(from *corev1.Pod, address netip.Addr, meant string) attempt {
	return insists(func(ctx context.Context) (string, error) {
		token, err := matrix.NewToken()
		if err != nil {
			return "", err
		}
		results, err := matrix.Probe(ctx, env.Exec, from.Namespace, from.Name, []wire.Target{
			{Address: address, Protocol: wire.TCP, Token: token},
		})
		if err != nil {
			return "", err
		}
		switch r := results[token]; {
		case r.Answered && r.Answerer.UID == meant:
			return "", nil
		case r.Answered:
			return fmt.Sprintf("%s answers in its place", r.Answerer), nil
		default:
			return silence, nil
		}
	})
}

// silence is what an attacker has who keeps others from an answer.
const silence = "nobody answers in its place"

// insists asks again where nobody answers: on a busy machine a connection may fail by itself. Whoever answers in another's place has done
// it the first time.
func insists(try attempt) attempt {
	return func(ctx context.Context) (got string, err error) {
		for range 3 {
			if got, err = try(ctx); err != nil || got != silence {
				break
			}
		}
		return got, err
	}
}

// askedBy is who answers a node's own processes.
func askedBy(ctx context.Context, node string, address netip.Addr) (wire.Identity, error) {
	conn, err := env.DialFrom(ctx, node, "tcp", netip.AddrPortFrom(address, wire.DefaultPort).String())
	if err != nil {
		return wire.Identity{}, err
	}
	defer conn.Close()
	defer wait.Limit(conn, 5*time.Second)()
	if _, err := fmt.Fprintln(conn, "who"); err != nil {
		return wire.Identity{}, err
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return wire.Identity{}, err
	}
	var answer wire.Answer
	return answer.Answerer, json.Unmarshal(line, &answer)
}

// nodeAstray is astray for a node's own processes, such as its kubelet.
func nodeAstray(node string, address netip.Addr, meant string) attempt {
	return insists(func(ctx context.Context) (string, error) {
		switch by, err := askedBy(ctx, node, address); {
		case err != nil:
			return silence, nil //nolint:nilerr // this is what the attacker has
		case by.UID != meant:
			return fmt.Sprintf("%s answers in its place", by), nil
		}
		return "", nil
	})
}

// TestExternalAddressesCatchNothing: without the admission policy a tenant's Service has addresses that are others': one outside that pods
// dial, a victim's face, a pod of the default Network. kube-proxy catches what goes to them, but not what pods send, nor what is for a pod.
func TestExternalAddressesCatchNothing(t *testing.T) {
	gone(t, policy("atoll-external-addresses"))
	catcher, victim, other, plain := member(t, "attackers/near"), member(t, "victims/near"), member(t, "victims/far"), member(t, "plain/far")
	outside := sandbox.OutsideAddresses()[0]
	face, pod := faces(other)[0], faces(plain)[0]
	services := mallory(t).CoreV1().Services("attackers")
	var err error
	cluster.Eventually(t, cluster.Patience, "the tenant makes the Service", func(ctx context.Context) error {
		_, err = services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "catches"}, Spec: corev1.ServiceSpec{
			Selector: catcher.Labels, ExternalIPs: []string{outside.String(), face.String(), pod.String()},
			Ports: []corev1.ServicePort{{Port: wire.DefaultPort}},
		}}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.CoreV1().Services("attackers").Delete(ctx, "catches", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	// That kube-proxy knows the addresses is seen at what it may catch: the node's own connections to the outside.
	cluster.Eventually(t, cluster.Patience, "kube-proxy catches", func(ctx context.Context) error {
		by, err := askedBy(ctx, "n1", outside)
		if err == nil && by.UID != string(catcher.UID) {
			err = fmt.Errorf("%s answers", by)
		}
		return err
	})
	d := onNode("n1", []string{"nft", "flush", "chain", "inet", "atoll", "bind"}, []string{
		"nft", "flush", "chain", "inet", "atoll", "bind-here",
	})
	d.name = "chains bind and bind-here of table inet atoll"
	weak := member(t, "plain/weak")
	d.holds(t,
		attack{"what a victim sends outside", astray(victim, outside, sandbox.Outside)},
		attack{"what a pod of the default Network sends outside", astray(weak, outside, sandbox.Outside)},
		attack{"what a node sends to a victim's face", nodeAstray("n1", face, string(other.UID))},
		attack{"what a node sends to a pod of the default Network", nodeAstray("n1", pod, string(plain.UID))},
	)
}

// TestNetworksWithoutAdmission: without the admission policies a tenant's pods bring attachments that they wrote themselves, of a victim's
// Network. The controller decides as before: what opens that Network is its selector, and nothing else.
func TestNetworksWithoutAdmission(t *testing.T) {
	gone(t, policy("atoll-pods"), policy("atoll-namespaces"))
	victim := member(t, "victims/near")
	forged := map[string]string{
		model.AnnotationAttachments:   `[{"interface":"eth0","network":"victims","subnet":"a","mac":"0a:58:0a:00:00:46","addresses":["10.0.0.70/24"],"gateways":["10.0.0.1"]}]`,
		model.AnnotationNetworkStatus: `[{"name":"victims","interface":"eth0","ips":["10.0.0.70"],"default":true}]`,
	}
	// The API server forgets its policies a moment after they are gone.
	edit := mallory(t)
	cluster.Eventually(t, cluster.Patience, "the API server takes forged annotations", func(ctx context.Context) error {
		p := cluster.PodSpec{Namespace: "attackers", Name: "forged", Annotations: forged}.Object()
		_, err := edit.CoreV1().Pods("attackers").Create(ctx, p, metav1.CreateOptions{DryRun: dry()})
		return err
	})
	alone := attack{"by attachments alone", joins(t, cluster.PodSpec{Name: "forged-alone", Annotations: forged}, victim)}
	if err := all(t.Context(), []attack{alone}, held); err != nil {
		t.Error(err)
	}
	spec("allowedNamespaces", "victims", func(s *v1alpha1.NetworkSpec) { s.AllowedNamespaces = &metav1.LabelSelector{} }).holds(t,
		attack{"by attachments and label", joins(t, cluster.PodSpec{Name: "forged-label", Network: "victims", Annotations: forged}, victim)},
		attack{
			"by attachments and interface", joins(t,
				cluster.PodSpec{Name: "forged-nics", NICs: `[{"network":"victims","ip":"10.0.0.70"}]`, Annotations: forged}, victim),
		},
	)
}

// TestNodesObeyInfraAccess: what a Network's pods reach of kubelets, node ports and what else listens on nodes is its
// infraAccess, that of the default Network's, too. The shipped value gives it to them (docs/design/walls.md), so that it is
// closed here first.
func TestNodesObeyInfraAccess(t *testing.T) {
	service := env.Service(t, "plain", "plain", corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: wire.DefaultPort}},
	})
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.CoreV1().Services("plain").Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(spec("infraAccess", "default", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraServices }).out(t))
	var attacks []attack
	for _, name := range []string{"attackers/weak", "attackers/strong", "plain/weak", "plain/strong"} {
		nodes := []string{"n1", "n2"}
		if strings.HasSuffix(name, "/strong") {
			nodes = nodes[:1]
		}
		for _, node := range nodes {
			for _, address := range env.NodeAddresses(t, node) {
				attacks = append(attacks, attack{
					fmt.Sprintf("%s dials the kubelet of %s, %s", name, node, address), dials(member(t, name), address, 10250, wire.TCP),
				})
			}
			port := uint16(service.Spec.Ports[0].NodePort)
			attacks = append(attacks, attack{
				name + " dials a node port of " + node, dials(member(t, name), env.NodeAddresses(t, node)[0], port, wire.TCP),
			})
		}
	}
	cluster.Eventually(t, cluster.Patience,
		"the default Network is closed", func(ctx context.Context) error { return all(ctx, attacks, held) })
	direct := func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraDirect }
	together("infraAccess", spec("infraAccess", "default", direct), spec("infraAccess", "attackers", direct)).holds(t, attacks...)
}
