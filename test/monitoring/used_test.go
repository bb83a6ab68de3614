package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUsed: each metric of each alert and panel is in the list, with those who ask for it.
func TestUsed(t *testing.T) {
	uses, err := Used(dist)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Use{}
	for _, use := range uses {
		if len(use.Users) == 0 || byName[use.Metric].Metric != "" {
			t.Errorf("%+v is used by nobody, or there twice", use)
		}
		byName[use.Metric] = use
	}
	// The texts themselves, without any structure: a metric of one that the list does not have would be looked at by nobody.
	for _, file := range []string{"rules.yaml", "dashboard.json"} {
		for line := range strings.Lines(string(read(t, filepath.Join(dist, file)))) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "expr:") && !strings.HasPrefix(line, `"expr":`) {
				continue
			}
			for _, name := range regexp.MustCompile(`\batoll_[a-z_]*[a-z]\b`).FindAllString(line, -1) {
				if byName[name].Metric == "" {
					t.Errorf("%s asks for %s, which the list lacks", file, name)
				}
			}
		}
	}
	for name := range needs {
		if byName[name].Needs == "" {
			t.Errorf("%s is excused, and nobody asks for it", name)
		}
	}
	for name, by := range map[string]string{
		"atoll_agent_swept_total":           "alert AtollRepairsFail",
		"atoll_agent_policy_packets_total":  "panel What policies decided",
		"atoll_controller_build_info":       "panel Versions",
		"atoll_agent_build_info":            "alert AtollVersionsDiffer",
		"atoll_inspect_build_info":          "alert AtollVersionsDiffer",
		"atoll_agent_add_seconds_bucket":    "alert AtollPodsStartSlowly",
		"atoll_agent_add_phase_seconds_sum": "panel What pods wait for",
	} {
		if !slices.Contains(byName[name].Users, by) {
			t.Errorf("%s is not used by %s: %q", name, by, byName[name].Users)
		}
	}
}

// Strings in an expression name no metrics; a regular expression on names does.
func TestMetricsIn(t *testing.T) {
	for expr, want := range map[string][]string{
		`absent(atoll_a == 1)`: {"atoll_a"},
		`sum by (node) (rate(atoll_b_total{name=~"atoll_c.*",what!~"gc|porthole"}[10m])) / atoll_b_total`: {"atoll_b_total"},
		`count({__name__=~"atoll_(controller|agent)_build_info"})`: {
			"atoll_agent_build_info", "atoll_controller_build_info",
		},
		`up{job="atoll-controller"} == 0`: nil,
	} {
		if diff := cmp.Diff(want, metricsIn(expr)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", expr, diff)
		}
	}
}

// A file that is not there is an error, not a list without its metrics.
func TestUsedMisses(t *testing.T) {
	for _, missing := range []string{"rules.yaml", "dashboard.json"} {
		dir := t.TempDir()
		for _, name := range []string{"rules.yaml", "dashboard.json"} {
			if name == missing {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), read(t, filepath.Join(dist, name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if uses, err := Used(dir); err == nil || len(uses) > 0 {
			t.Errorf("without %s: %v, %v", missing, uses, err)
		}
	}
}
