//go:build integration

package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// TestAlerts: Prometheus' own tool reads the rules and runs their cases; and the cases find an alert that never fires, or always.
func TestAlerts(t *testing.T) {
	programs, err := parts.GatherMonitoring(t.Context(), parts.Need{Cache: sandbox.DefaultCache}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	rules, all := string(read(t, filepath.Join(dist, "rules.yaml"))), string(read(t, cases))
	dir := t.TempDir()
	promtool := func(rules string, args ...string) (string, error) {
		for name, text := range map[string]string{"rules.yaml": rules, cases: all} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), programs.Promtool, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := promtool(rules, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := promtool(rules, "test", "rules", cases); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Of each alert one case notices when it never fires, and one when it always does.
	for what, other := range map[string]string{" fires: ": "vector(1) > 1", " is quiet: ": "vector(1)"} {
		wrong := rules
		for _, a := range alerts(t) {
			expr := "expr: " + a.Expr + "\n"
			if strings.Count(rules, expr) != 1 {
				t.Fatalf("%s: its expression is not one line of the rules", a.Alert)
			}
			wrong = strings.Replace(wrong, expr, "expr: "+other+"\n", 1)
		}
		out, err := promtool(wrong, "test", "rules", cases)
		if err == nil {
			t.Errorf("all cases pass with %s", other)
		}
		for _, a := range alerts(t) {
			if !strings.Contains(out, a.Alert+what) {
				t.Errorf("no case %q notices that %s is %s", a.Alert+what, a.Alert, other)
			}
		}
	}
}
