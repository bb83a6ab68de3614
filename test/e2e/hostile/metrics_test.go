//go:build e2e

package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// scrapes asks for a program's metrics from a node, where all addresses are reached. Whoever asks has them if the answer has metrics.
func scrapes(at netip.AddrPort, shown tokens) attempt {
	return func(ctx context.Context) (string, error) {
		token, err := shown(ctx)
		if err != nil {
			return "", err
		}
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return env.DialFrom(ctx, "n3", network, address)
			},
		}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at.String()+"/metrics", nil)
		if err != nil {
			return "", err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		switch {
		case err != nil:
			return "", err
		case answer.StatusCode == http.StatusOK && strings.Contains(string(text), "_build_info"):
			return "metrics", nil
		case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
			return "", nil
		}
		return "", fmt.Errorf("answered with %s", answer.Status)
	}
}

// tokens gives the token that is shown; empty: none.
type tokens func(context.Context) (string, error)

// theSame is the same token each time.
func theSame(token string) tokens { return func(context.Context) (string, error) { return token, nil } }

// attackersTokens are tokens of a pod of the attackers'. Programs remember for half a minute what a token may: in make test-all
// it is the same one each time, and what is remembered has to end; else each is new, and is judged anew.
func attackersTokens(t *testing.T) tokens {
	t.Helper()
	another := func(ctx context.Context) (string, error) {
		token, err := env.Clients.Kube.CoreV1().ServiceAccounts("attackers").CreateToken(ctx, "default", &authenticationv1.TokenRequest{},
			metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return token.Status.Token, nil
	}
	if !tier.All() {
		return another
	}
	token, err := another(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return theSame(token)
}

// TestMetricsAreForScrapers: who reaches a node, and has a token of a pod, asks for the metrics of controller, inspection and
// agents; pods of a Network do not reach them.
func TestMetricsAreForScrapers(t *testing.T) {
	own := attackersTokens(t)
	token, err := own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	agent := netip.AddrPortFrom(env.NodeAddresses(t, "n2")[0], 9411)
	central := env.NodeAddresses(t, "n1")[0]
	places := map[string]netip.AddrPort{
		"an agent": agent, "the controller": netip.AddrPortFrom(central, 9410), "inspection": netip.AddrPortFrom(central, 9421),
	}
	var attacks []attack
	for who, at := range places {
		attacks = append(attacks, attack{"a tenant's token, shown to " + who, scrapes(at, own)})
		for what, token := range map[string]string{"no token": "", "a forged token": token + "x"} {
			if got, err := scrapes(at, theSame(token))(t.Context()); err != nil || got != "" {
				t.Errorf("with %s %s gives %q (error %v)", what, who, got, err)
			}
		}
	}
	granted("no right on the path /metrics", "system:serviceaccount:attackers:default", "atoll-metrics-reader").holds(t, attacks...)
	direct := spec("infraAccess", "attackers", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraDirect })
	direct.holds(t, attack{"a pod dials an agent's metrics", dials(member(t, "attackers/weak"), agent.Addr(), agent.Port(), wire.TCP)})
	// As docs/metrics.md has it.
	env.Kubectl(t, "create", "clusterrolebinding", "scrapes-atoll", "--clusterrole=atoll-metrics-reader", "--serviceaccount=attackers:default")
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, "scrapes-atoll", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	cluster.Eventually(t, cluster.Patience, "a scraper has the metrics", func(ctx context.Context) error {
		got, err := scrapes(agent, own)(ctx)
		if err == nil {
			err = succeeded(got)
		}
		return err
	})
}
