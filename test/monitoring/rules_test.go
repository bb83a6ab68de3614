package monitoring

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	dist     = "../../dist/monitoring"
	cases    = "alerts.yaml"
	runbooks = "../../docs/troubleshooting/alerts.md"
	// address is where the runbooks are, as alerts name it.
	address = "https://github.com/atoll-net/atoll/blob/main/docs/troubleshooting/alerts.md#"
)

var update = flag.Bool("update", false, "write the PrometheusRule")

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func alerts(t *testing.T) []alert {
	t.Helper()
	all, err := readAlerts(dist)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestPrometheusRule: those with the operator get the rules of those without.
func TestPrometheusRule(t *testing.T) {
	_, groups, found := strings.Cut(string(read(t, filepath.Join(dist, "rules.yaml"))), "\ngroups:\n")
	if !found {
		t.Fatal("the rules have no groups")
	}
	want := `# Made from rules.yaml by make generate.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: atoll
  namespace: atoll-system
spec:
  groups:
` + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(groups, "  $1")
	path := filepath.Join(dist, "prometheusrule.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(read(t, path)) != want {
		t.Errorf("%s is not what rules.yaml says: run make generate", path)
	}
}

// TestAlertsTellPeople: each alert says how bad it is, what it means to users, and where to read on.
func TestAlertsTellPeople(t *testing.T) {
	known := map[string]bool{}
	for _, a := range alerts(t) {
		if known[a.Alert] || !regexp.MustCompile(`^Atoll[A-Z]\w+$`).MatchString(a.Alert) {
			t.Errorf("%s: there are two, or it has not the form of a name", a.Alert)
		}
		known[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		if s := a.Annotations["summary"]; len(s) < 40 || !strings.HasSuffix(s, ".") {
			t.Errorf("%s says only %q", a.Alert, s)
		}
		if got := a.Annotations["runbook_url"]; got != address+strings.ToLower(a.Alert) {
			t.Errorf("%s leads to %s", a.Alert, got)
		}
	}
	sections := strings.Split(string(read(t, runbooks)), "\n## ")[1:]
	for _, section := range sections {
		name, text, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(name, "Atoll") {
			continue
		}
		if !known[name] {
			t.Errorf("%s has a section %s, which is no alert", runbooks, name)
		}
		delete(known, name)
		for _, part := range []string{"**Means:** ", "**Look:**", "**Do:** "} {
			if !strings.Contains(text, part) {
				t.Errorf("section %s has no %s", name, part)
			}
		}
	}
	for name := range known {
		t.Errorf("%s has no section %s", runbooks, name)
	}
}

// TestEachAlertHasCases: one in which it fires, with all that people read, and one of the same metrics in which it does not.
func TestEachAlertHasCases(t *testing.T) {
	var file struct {
		Tests []struct {
			Series []struct {
				Series string `json:"series"`
			} `json:"input_series"`
			Alerts []struct {
				Name     string           `json:"alertname"`
				Expected []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(read(t, cases), &file); err != nil {
		t.Fatal(err)
	}
	// fires and quiet are the metrics in an alert's cases.
	fires, quiet := map[string][]string{}, map[string][]string{}
	for _, test := range file.Tests {
		var names []string
		for _, s := range test.Series {
			name, _, _ := strings.Cut(s.Series, "{")
			names = append(names, name)
		}
		for _, a := range test.Alerts {
			into := quiet
			if len(a.Expected) > 0 {
				into = fires
			}
			into[a.Name] = append(into[a.Name], names...)
		}
	}
	for _, a := range alerts(t) {
		if len(fires[a.Alert]) == 0 || len(quiet[a.Alert]) == 0 {
			t.Errorf("%s: %d series with which it fires, %d with which it does not", a.Alert, len(fires[a.Alert]), len(quiet[a.Alert]))
		}
		for _, name := range fires[a.Alert] {
			if !slices.Contains(quiet[a.Alert], name) {
				t.Errorf("%s is quiet in a case without %s, which shows nothing", a.Alert, name)
			}
		}
		for _, name := range metricsIn(a.Expr) {
			if !slices.Contains(fires[a.Alert], name) {
				t.Errorf("%s asks for %s, which no case has", a.Alert, name)
			}
		}
	}
}
