// Package monitoring holds tests of dist/monitoring: alerts fire when they should and not else, people find what to do, and Grafana can
// read the dashboard.
// Used lists the metrics that alerts and panels ask for; TestMonitoring in test/e2e asks a real Prometheus whether each has had a sample.
package monitoring

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Use is a metric that alerts or panels ask for.
type Use struct {
	// Metric is the name of its series, as a scrape gives it: with _bucket, _sum or _count, where it is a histogram's.
	Metric string
	// Users are the alerts and panels that ask for it: "alert NAME" or "panel TITLE", sorted.
	Users []string
	// Needs says what a cluster must have had before the metric has a sample; empty: nothing, every healthy cluster has samples of it.
	Needs string
}

// needs are the metrics that a healthy cluster may have no sample of: their labels are names that users choose. All others start at 0.
var needs = map[string]string{
	"atoll_agent_policy_packets_total": "a NetworkPolicy, and a packet that it decided about",
	"atoll_pods_refused":               "a pod that is refused",
	"atoll_subnet_addresses_free":      "a Network with a subnet",
	"atoll_subnet_addresses_used":      "a Network with a subnet",
}

// alert is one of the rules.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// panel is a part of the dashboard: one that asks, or a row with panels in it.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	Panels []panel `json:"panels"`
}

// Used reads which metrics the alerts and panels of dist/monitoring ask for, sorted by name. dir is that directory.
func Used(dir string) ([]Use, error) {
	alerts, err := readAlerts(dir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "dashboard.json"))
	if err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	var dashboard panel
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	by := map[string][]string{}
	for _, a := range alerts {
		for _, name := range metricsIn(a.Expr) {
			by[name] = append(by[name], "alert "+a.Alert)
		}
	}
	addPanels(by, dashboard.Panels)
	out := make([]Use, 0, len(by))
	for name, users := range by {
		slices.Sort(users)
		out = append(out, Use{name, slices.Compact(users), needs[name]})
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Compare(a.Metric, b.Metric) })
	return out, nil
}

func addPanels(by map[string][]string, panels []panel) {
	for _, p := range panels {
		for _, target := range p.Targets {
			for _, name := range metricsIn(target.Expr) {
				by[name] = append(by[name], "panel "+p.Title)
			}
		}
		addPanels(by, p.Panels)
	}
}

func readAlerts(dir string) ([]alert, error) {
	text, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

var (
	// quoted is a string of PromQL: the value of a label, in which no metric is named.
	quoted = regexp.MustCompile(`"[^"]*"`)
	// chosen selects metrics by a regular expression on their names: prefix(one|another)suffix.
	chosen = regexp.MustCompile(`__name__=~"(\w*)\(([\w|]+)\)(\w*)"`)
	metric = regexp.MustCompile(`\batoll_\w+\b`)
)

// metricsIn returns the metrics of Atoll in an expression of PromQL, each once.
func metricsIn(expr string) []string {
	var names []string
	for _, found := range chosen.FindAllStringSubmatch(expr, -1) {
		for one := range strings.SplitSeq(found[2], "|") {
			names = append(names, found[1]+one+found[3])
		}
	}
	names = append(names, metric.FindAllString(quoted.ReplaceAllString(expr, ""), -1)...)
	slices.Sort(names)
	return slices.Compact(names)
}
