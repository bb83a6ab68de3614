//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestATenantsAdmin: an admin of one tenant, who may also write what is in two of its namespaces, does all that
// docs/design/tenants-admin.md names, with a token and kubectl, and is told what stands there. The tenants are those of
// docs/examples/tenants.
func TestATenantsAdmin(t *testing.T) {
	t.Parallel()
	env.applyTenants(t)
	jo := env.adminOf(t, "acme", "jo")
	t.Cleanup(func() { env.sweepLab(t) })
	env.sweepLab(t)
	then := map[string]func(*testing.T){
		"and both come up":                 func(t *testing.T) { checkClosed(t, false) },
		"isolates the pods of a namespace": func(t *testing.T) { checkClosed(t, true) },
	}
	for _, d := range deedsOfDocs(t) {
		began := t.Run(d.what, func(t *testing.T) {
			jo.does(t, d)
			if check := then[d.what]; check != nil {
				check(t)
				delete(then, d.what)
			}
		})
		if !began {
			// What follows builds upon it.
			break
		}
	}
	for what := range then {
		t.Errorf("docs/design/tenants-admin.md has no row %q", what)
	}
}

// deed is a row of the table: what the user does, by which command, and what the user is told.
type deed struct {
	what    string
	command []string
	// answer is how the user is told, and told the words that are given, where it matters which.
	answer, told string
}

// The ways in which a user is told. The command succeeds, or it fails, or it succeeds and the rest stands in an Event in the user's
// namespace or in a condition of the user's Network.
const (
	answerYes       = "yes"
	answerNo        = "no"
	answerEvent     = "Event"
	answerCondition = "condition"
)

var (
	deedRow  = regexp.MustCompile("^\\| ([^|]+) \\| `(kubectl [^|`]+)` \\| (yes|no|Event|condition)(?:: `([^`]+)`)? \\|$")
	argument = regexp.MustCompile(`(?:'[^']*'|[^' ])+`)
)

// deedsOfDocs reads the table of docs/design/tenants-admin.md.
func deedsOfDocs(t *testing.T) []deed {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(env.Root, "docs/design/tenants-admin.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| deed | command | answer |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/design/tenants-admin.md has no table of what a tenant's admin does")
	}
	var out []deed
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		cells := deedRow.FindStringSubmatch(line)
		if cells == nil {
			t.Fatalf("docs/design/tenants-admin.md has a row that cannot be read: %s", line)
		}
		d := deed{what: cells[1], answer: cells[3], told: cells[4]}
		for _, word := range argument.FindAllString(cells[2], -1) {
			d.command = append(d.command, strings.ReplaceAll(word, "'", ""))
		}
		if d.told == "" && d.answer != answerYes {
			t.Errorf("%s: docs/design/tenants-admin.md does not say what he is told", d.what)
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		t.Fatal("the table of docs/design/tenants-admin.md has no rows")
	}
	return out
}

// somebody is a user with a kubeconfig.
type somebody struct{ kubeconfig string }

// adminOf is a ServiceAccount with a token, as a program outside of the cluster has it.
func (c *suite) adminOf(t *testing.T, namespace, name string) somebody {
	t.Helper()
	token, err := c.Clients.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.Box.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return somebody{path}
}

// kubectl is what it prints, and what it says when it fails.
func (s somebody) kubectl(ctx context.Context, args ...string) (printed string, err error) {
	cmd := env.Program(ctx, append([]string{"kubectl", "--kubeconfig=" + s.kubeconfig}, args...)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failure.Bytes()))
	}
	return string(out), err
}

// does runs the command of a row. The user gets a right some time after the object is created, so a command that fails is tried
// again. A command that must fail must not succeed once.
func (s somebody) does(t *testing.T, d deed) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, strings.Join(d.command, " "), func(ctx context.Context) error {
		printed, err := s.kubectl(ctx, d.command[1:]...)
		switch {
		case d.answer == answerNo && err == nil:
			t.Fatalf("he may: %s", printed)
		case d.answer == answerNo && !strings.Contains(err.Error(), d.told):
			return fmt.Errorf("want %q: %w", d.told, err)
		case d.answer == answerNo:
			return nil
		case err != nil:
			return err
		case d.answer == answerYes && !strings.Contains(printed, d.told):
			return fmt.Errorf("it says %q, want %q", printed, d.told)
		}
		return nil
	})
	var where []string
	switch d.answer {
	case answerEvent:
		where = []string{"get", "events", "-n", "acme-lab", "-o", "jsonpath={.items[*].message}"}
	case answerCondition:
		where = []string{"get", "network", "acme--lab", "-o", "jsonpath={.status.conditions[*].message}"}
	default:
		return
	}
	cluster.Eventually(t, cluster.Patience, "he is told of "+d.what, func(ctx context.Context) error {
		printed, err := s.kubectl(ctx, where...)
		if err == nil && !strings.Contains(printed, d.told) {
			err = fmt.Errorf("%q, want %q", printed, d.told)
		}
		return err
	})
}

// checkClosed: the policy of the namespace acme-lab isolates its pod, if it is closed, and nobody else's, in the same Network or
// another tenant's.
func checkClosed(t *testing.T, closed bool) {
	t.Helper()
	pod := func(namespace, name string) *corev1.Pod {
		t.Helper()
		p, err := env.Clients.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	answers := func(from, to *corev1.Pod, want bool) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, fmt.Sprintf("%s reaches %s: %t", from.Name, to.Name, want), func(ctx context.Context) error {
			target := wire.Target{Address: netip.MustParseAddr(cluster.OwnAddress(t, to)), Protocol: wire.TCP, Token: cluster.NewToken(t)}
			results, err := matrix.Probe(ctx, env.Exec, from.Namespace, from.Name, []wire.Target{target})
			if err == nil && results[target.Token].Answered != want {
				err = errors.New("it is not so")
			}
			return err
		})
	}
	answers(pod("acme", "acme-1"), pod("acme-lab", "mine"), !closed)
	answers(pod("acme", "acme-1"), pod("acme", "acme-2"), true)
	answers(pod("umbrella", "umbrella-1"), pod("umbrella", "umbrella-2"), true)
}

// sweepLab removes what the admin may have made.
func (c *suite) sweepLab(t *testing.T) {
	t.Helper()
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	for _, args := range [][]string{
		{"delete", "-n", "acme-lab", "pods,networkpolicies,events", "--all"},
		{"delete", "-n", "acme-lab", "--ignore-not-found", "service", "mine"},
		{"delete", "network", "acme--lab", "--ignore-not-found"},
	} {
		if out, err := c.Program(ctx, append([]string{"kubectl"}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
