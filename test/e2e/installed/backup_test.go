//go:build e2e

package installed

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// backups is where dist/backup keeps its files, on the node where its pod runs.
const backups = "/var/lib/atoll/backup"

// TestBackupJob: the CronJob that dist/backup ships makes a Job as docs/how-to/restore-the-databases.md tells. Its pod writes a
// file of each database, which have the rows that are there and can be served. How they are restored is TestBackupAndRestore's
// (pkg/daemons/central).
func TestBackupJob(t *testing.T) {
	manifests, err := env.Program(t.Context(), "kubectl", "kustomize", "dist/backup").Output()
	if err != nil {
		t.Fatal(err)
	}
	// As dist/overlays/sandbox does.
	text, tag := string(manifests), "ghcr.io/atoll-net/ovn:sandbox"
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "ghcr.io/atoll-net/ovn") {
			text = strings.ReplaceAll(text, word, tag)
		}
	}
	apply := env.Program(t.Context(), "kubectl", "apply", "--server-side", "-f", "-")
	apply.Stdin = strings.NewReader(text)
	if out, err := apply.CombinedOutput(); err != nil || !strings.Contains(text, tag) {
		t.Fatalf("apply dist/backup: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		for _, what := range []string{"cronjob/atoll-ovn-backup", "job/now"} {
			if out, err := env.Program(ctx, "kubectl", "delete", "-n", system, what, "--ignore-not-found").CombinedOutput(); err != nil {
				t.Errorf("delete %s: %v\n%s", what, err, out)
			}
		}
		for _, node := range env.Box.Nodes() {
			if _, err := env.Box.Exec(ctx, node, "rm", "-rf", backups); err != nil {
				t.Error(err)
			}
		}
	})
	for _, words := range [][]string{
		{"create", "job", "-n", system, "--from=cronjob/atoll-ovn-backup", "now"},
		{"wait", "-n", system, "--for=condition=Complete", "--timeout=120s", "job/now"},
	} {
		if out, err := kubectl(t.Context(), words...); err != nil {
			state, _ := kubectl(t.Context(), "describe", "pods", "-n", system, "-l", "job-name=now")
			said, _ := kubectl(t.Context(), "logs", "-n", system, "job/now")
			t.Fatalf("kubectl %v: %v\n%s\n%s\n%s", words, err, out, state, said)
		}
	}
	node, err := kubectl(t.Context(), "get", "pods", "-n", system, "-l", "job-name=now", "-o", "jsonpath={.items[0].spec.nodeName}")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct{ prefix, schema, table, row string }{
		{"ovnnb_db-", "OVN_Northbound", "Logical_Router", `"red"`},
		{"ovnsb_db-", "OVN_Southbound", "Chassis", fmt.Sprintf("%q", env.Box.Nodes()[0])},
	} {
		out, err := env.Box.Exec(t.Context(), node, "find", backups, "-name", kind.prefix+"*.db", "-perm", "600")
		files := strings.Fields(string(out))
		if err != nil || len(files) != 1 {
			t.Errorf("%s has %q of %s: %v", node, files, kind.prefix, err)
			continue
		}
		query := fmt.Sprintf(`[%q,{"op":"select","table":%q,"where":[],"columns":["name"]}]`, kind.schema, kind.table)
		rows, err := env.Box.Exec(t.Context(), node, "ovsdb-tool", "query", files[0], query)
		if err != nil || !strings.Contains(string(rows), kind.row) {
			t.Errorf("%s, table %s: %v, without %s: %s", path.Base(files[0]), kind.table, err, kind.row, rows)
		}
	}
}
