//go:build e2e

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

const controlPlane = sandbox.Central

func outsideServers() []netip.Addr { return sandbox.OutsideAddresses() }

// anywhere are the addresses that explain takes for outside, in general. (RFC 5737, RFC 3849.)
func anywhere() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
}

// openWays gives half of a world's Networks a way out, and some more or less of the infrastructure, as a seed draws it. Somebody
// outside answers then at whatever address pods of the stage have: what leaves a Network for it is seen to have left.
func openWays(t *testing.T, world between.World, seed uint64) {
	t.Helper()
	for _, to := range []string{"192.0.2.1/32", "2001:db8::1/128", "10.0.0.0/8", "fd00:10::/64", "fd00:20::/64"} {
		inOutside(t, "route", "add", "local", to, "dev", "lo")
		t.Cleanup(func() { inOutside(t, "route", "del", "local", to, "dev", "lo") })
	}
	r := rand.New(rand.NewPCG(seed, 4))
	opened := map[string]bool{}
	for _, n := range world.Networks {
		egress := [...]v1alpha1.Egress{v1alpha1.EgressNone, v1alpha1.EgressNode}[r.IntN(2)]
		infra := [...]v1alpha1.InfraAccess{v1alpha1.InfraServices, v1alpha1.InfraServices, v1alpha1.InfraNone, v1alpha1.InfraDirect}[r.IntN(4)]
		opened[n.Name] = egress == v1alpha1.EgressNode
		t.Logf("%s: egress %s, infraAccess %s", n.Name, egress, infra)
		env.ChangeNetwork(t, n.Name, func(s *v1alpha1.NetworkSpec) { s.Egress, s.InfraAccess = egress, infra })
	}
	var paths []random.Path
	for i, p := range world.Pods {
		if world.MayLookUp(p) { // a policy may keep others from outside
			paths = append(paths, random.Path{From: i, Address: outsideServers()[0], Protocol: wire.TCP})
		}
	}
	cluster.Eventually(t, cluster.Patience, "who reaches outside", func(ctx context.Context) error {
		seen, err := random.Run(ctx, env.Exec, world.Placed(), paths)
		if err != nil {
			return err
		}
		for i, path := range paths {
			p := world.Pods[path.From]
			if seen[i].Result.Answered != opened[p.Network] {
				err = errors.Join(err, fmt.Errorf("%s of %s is answered: %t", p, p.Network, seen[i].Result.Answered))
			}
		}
		return err
	})
}

func inOutside(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	if out, err := env.Box.Exec(ctx, sandbox.Outside, append([]string{"ip"}, args...)...); err != nil {
		t.Errorf("ip %q outside: %v\n%s", args, err, out)
	}
}

// isolate has nobody send to the pods of a namespace; what it returns lifts that.
func isolate(t *testing.T, namespace string) (lift func()) {
	t.Helper()
	policies := env.Clients.Kube.NetworkingV1().NetworkPolicies(namespace)
	made, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "control"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := policies.Delete(t.Context(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// serviceAddresses are the ClusterIPs of a Service.
func serviceAddresses(t *testing.T, namespace, name string) (out []netip.Addr) {
	t.Helper()
	s, err := env.Clients.Kube.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range s.Spec.ClusterIPs {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out
}

// Of what a place sends, the first packet may be lost as any may.
const (
	placeTries = 3
	placeWait  = 700 * time.Millisecond
)

// sendFrom asks a netprobe from a place's own network, by TCP or UDP. Silence is a result and no error.
func sendFrom(ctx context.Context, from string, target wire.Target) (wire.Result, error) {
	token, err := matrix.NewToken()
	if err != nil {
		return wire.Result{}, err
	}
	result := wire.Result{Token: token}
	for result.Tries < placeTries && !result.Answered && (!result.Connected || target.Port != wire.HTTPPort) {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		result.Tries++
		if err := sendOnce(ctx, from, target, &result); err != nil {
			result.Error = err.Error()
		}
	}
	return result, nil
}

func sendOnce(ctx context.Context, from string, target wire.Target, result *wire.Result) error {
	limited, cancel := context.WithTimeout(ctx, placeWait)
	defer cancel()
	conn, err := env.DialFrom(limited, from, string(target.Protocol), target.AddrPort().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	result.Connected = target.Protocol == wire.TCP
	text := result.Token
	if target.Protocol == wire.TCP {
		text += "\n"
	}
	if err := conn.SetDeadline(time.Now().Add(placeWait)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	var answer wire.Answer
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&answer); err != nil {
		return err
	}
	result.Answered, result.Answerer = answer.Token == result.Token, answer.Answerer
	return nil
}
