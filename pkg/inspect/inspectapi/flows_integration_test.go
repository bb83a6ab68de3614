//go:build integration

package inspectapi

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-net/atoll/pkg/cli"
)

// flows checks flows through a real API server. A tenant's admin may ask for, and follow, the flows of the tenant's own Network and
// namespace, and no others. A node whose agent does not answer is reported as missing.
func (l *lab) flows(admin string) {
	jo := l.kubeconfigOf("jo")
	says := func(kubeconfig string, want int, say string, args ...string) {
		l.t.Helper()
		// RBAC of the Tenant's role takes a moment.
		l.eventually("atoll "+strings.Join(args, " "), func() error {
			status, out, problems := l.atoll(kubeconfig, args...)
			if status != want || !strings.Contains(out+problems, say) {
				return fmt.Errorf("status %d: %s%s", status, out, problems)
			}
			return nil
		})
	}
	for _, args := range [][]string{{"flows", "acme"}, {"flows"}, {"drops", "-n", "acme"}, {"flows", "acme", "--follow"}} {
		says(jo, 2, "flows.sampling of the AtollConfig is Off. Next, for who administers the cluster: kubectl patch", args...)
	}
	for _, args := range [][]string{{"flows", "umbrella"}, {"flows", "umbrella", "--follow"}} {
		says(jo, 2, `User "jo" cannot get resource "flows" in API group "inspect.atoll.dev" at the cluster scope`, args...)
	}
	says(jo, 2, `cannot list resource "podflows" in API group "inspect.atoll.dev" in the namespace "umbrella"`, "flows", "-n", "umbrella")
	says(jo, 2, `cannot watch resource "podflows" in API group "inspect.atoll.dev" in the namespace "umbrella"`, "flows", "-n", "umbrella",
		"--follow")
	l.sampling.Store(true)
	// The only node does not answer: nothing is known.
	const missing = "nothing is known: not all is told. Missing are flows of node n1: the agent of node n1 cannot be asked at port 9414"
	for _, args := range [][]string{{"flows", "acme"}, {"flows"}, {"drops", "-n", "acme"}} {
		says(jo, 2, missing, args...)
	}
	says(admin, 2, missing, "flows", "umbrella")
	says(jo, 2, `cannot get resource "flows"`, "flows", "umbrella")

	// The API server forwards each line as it arrives.
	read, write := io.Pipe()
	cmd := cli.Command("atoll")
	cmd.SetArgs([]string{"drops", "acme", "--follow", "--kubeconfig", jo})
	cmd.SetOut(io.Discard)
	cmd.SetErr(write)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(l.t.Context())
		_ = write.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(read)
	if !lines.Scan() || !strings.Contains(lines.Text(), "flows of node n1 are missing from now on: the agent of node n1 cannot be asked") {
		l.t.Errorf("who follows is told %q, %v", lines.Text(), lines.Err())
	}
	l.sampling.Store(false)
	_, _ = io.Copy(io.Discard, read)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "flows.sampling of the AtollConfig is Off") {
		l.t.Errorf("when sampling is ended it says %v", err)
	}
}
