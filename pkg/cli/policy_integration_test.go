//go:build integration

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/cli"
	"github.com/atoll-net/atoll/test/wait"
)

// trace runs the command as its user does, with the rights of who checks.
func (l *lab) trace(args ...string) (status int, out string) {
	l.t.Helper()
	var text bytes.Buffer
	cmd := cli.Command("atoll")
	cmd.SetOut(&text)
	cmd.SetArgs(append([]string{"policy", "trace", "--kubeconfig", l.kubeconfig, "--nb-address", l.central.NBAddress()}, args...))
	err := cmd.ExecuteContext(l.t.Context())
	if status = cli.ExitStatus(err); status == 2 {
		return status, err.Error()
	}
	return status, text.String()
}

// traces waits until a trace ends with a status and says something.
func (l *lab) traces(want int, say string, args ...string) {
	l.t.Helper()
	wait.Eventually(l.t, wait.Patience, strings.Join(args, " "), func(context.Context) error {
		status, out := l.trace(args...)
		if status != want || !strings.Contains(out, say) {
			return fmt.Errorf("status %d\n%s", status, out)
		}
		return nil
	})
}

// What the API's objects become in a real database is what the trace tells, with the policies of a pod that drops; and it
// changes with the database, whatever the objects say.
func TestTraceOfWhatTheControllerWrote(t *testing.T) {
	l := newLab(t)
	stop := l.control("one")
	l.clean(allIsWell)
	to := []string{"red/web-0", "red/web-1", "--port", "80"}
	if status, out := l.trace(to...); status != 0 || !strings.Contains(out, "no policy isolates the pod") {
		t.Fatalf("without policies: status %d\n%s", status, out)
	}
	l.kubectl("label", "pod", "-n", "red", "web-1", "app=db")
	l.apply(`
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: red, name: deny-all}, spec: {podSelector: {}, policyTypes: [Ingress]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: red, name: db}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 5432}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: blue, name: not-meant}, spec: {podSelector: {}}}
`)
	l.traces(1, "isolated by NetworkPolicy/red/db, NetworkPolicy/red/deny-all\n", to...)
	l.traces(0, "NetworkPolicy/red/db, rule 0 of Ingress", "red/web-0", "red/web-1", "--port", "5432")
	stop()
	l.nbctl("set", "ACL", l.nbctl("--bare", "--columns=_uuid", "find", "ACL", `name="red/db:Ingress:0"`), "action=drop")
	if status, out := l.trace("red/web-0", "red/web-1", "--port",
		"5432"); status != 1 || !strings.Contains(out, "drop      NetworkPolicy/red/db, rule 0") {
		t.Errorf("with a row that somebody changed: status %d\n%s", status, out)
	}
	if status, out := l.trace("red/web-0", "red/gone", "--port", "80"); status != 2 || !strings.Contains(out, "pod red/gone has no port") {
		t.Errorf("to a pod that is not there: status %d, %s", status, out)
	}
}
