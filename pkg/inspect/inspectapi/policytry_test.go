package inspectapi

import (
	"net/http"
	"strings"
	"testing"
)

// TestWhoMayTryWhat: only a user who may create a policy in a namespace may try it there. Which pods the answer names depends on the
// user's right to create explanations.
func TestWhoMayTryWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const (
		own = `{"spec":{"policies":[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"acme","name":"x"},"spec":{"podSelector":{}}}]}}`
		two = `{"spec":{"policies":[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"acme","name":"x"},"spec":{"podSelector":{}}},
			{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"umbrella","name":"x"},"spec":{"podSelector":{}}}]}}`
		gone    = `{"spec":{"delete":["NetworkPolicy/umbrella/x"]}}`
		cluster = `{"spec":{"delete":["ClusterNetworkPolicy/x"]}}`
		unknown = `{"spec":{"policies":[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"acme","name":"x"},"spec":{"podSelector":{},"ingres":[]}}]}}`
	)
	for _, c := range []struct {
		user, path, body string
		status           int
		told             string
		looks            bool
	}{
		{"operator", "/policytrials", two, http.StatusCreated, `"verdict":"2 of everything"`, true},
		{"operator", "/policytrials", cluster, http.StatusCreated, `"verdict":"1 of everything"`, true},
		{"operator", "/policytrials", `{}`, http.StatusBadRequest, "there is no policy to try", false},
		{"operator", "/policytrials", unknown, http.StatusBadRequest, "ingres", false},
		{"operator", "/policytrials", strings.Repeat(" ", maxTrial+1), http.StatusRequestEntityTooLarge, "at most", false},
		{
			"viewer", "/policytrials", own, http.StatusForbidden, `cannot create resource "networkpolicies" in API group "networking.k8s.io"`, false,
		},
		{"jo", "/policytrials", own, http.StatusForbidden, "policytrials", false},
		{"jo", "/namespaces/acme/policytrials", own, http.StatusCreated, `"verdict":"1, of acme true, of umbrella false"`, true},
		{"jo", "/namespaces/acme/policytrials", two, http.StatusForbidden, `in the namespace "umbrella"`, false},
		{"jo", "/namespaces/acme/policytrials", gone, http.StatusForbidden, `in the namespace "umbrella"`, false},
		{"jo", "/namespaces/acme/policytrials", cluster, http.StatusForbidden, "clusternetworkpolicies", false},
		{"", "/policytrials", own, http.StatusUnauthorized, "nobody says who asks", false},
	} {
		before := w.answers.asked.Load()
		status, told := w.send(t, w.client, c.user, http.MethodPost, c.path, c.body)
		if status != c.status || !strings.Contains(told, c.told) {
			t.Errorf("%s posts to %s: %d %s; want %d %s", c.user, c.path, status, told, c.status, c.told)
		}
		if looked := w.answers.asked.Load() > before; looked != c.looks {
			t.Errorf("%s posts to %s: it is looked up: %v", c.user, c.path, looked)
		}
	}
}

// TestTrialsLookAtFlows: a trial reads the flows of the Networks that its policies concern, else those of the pods in its namespaces,
// as far as the user may see them. If the user may not see any, the trial goes on without flows.
func TestTrialsLookAtFlows(t *testing.T) {
	t.Parallel()
	const (
		body = `{"spec":{"since":"1h","policies":[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"acme","name":"x"},"spec":{"podSelector":{}}}]}}`
		mine = "/namespaces/acme/policytrials"
	)
	for _, c := range []struct {
		user, path, body string
		on               bool
		told             string
		networks, spaces int
	}{
		{"jo", mine, body, true, `"3 flows of 1h0m0s: "`, 1, 0},
		{"ed", mine, body, true, `"3 flows of 1h0m0s: "`, 0, 1},
		{"eve", mine, body, true, `"0 flows of 1h0m0s: you may not see the flows of pods in acme`, 0, 0},
		{"operator", "/policytrials", body, true, `"3 flows of 1h0m0s: "`, 1, 0},
		{"operator", "/policytrials", `{"spec":{"since":"1h","delete":["ClusterNetworkPolicy/x"]}}`, true, `"5 flows of 1h0m0s: "`, 0, 0},
		{"jo", mine, body, false, `"0 flows of 1h0m0s: flows are not sampled`, 0, 0},
		{"jo", mine, strings.Replace(body, `"since":"1h",`, "", 1), true, `"1, of acme true, of umbrella false"`, 0, 0},
	} {
		w := newFlowWorld(t)
		w.settings.Flows.On = c.on
		status, told := w.send(t, w.client, c.user, http.MethodPost, c.path, c.body)
		if status != http.StatusCreated || !strings.Contains(told, c.told) {
			t.Errorf("%s tries: %d %s, want %s", c.user, status, told, c.told)
		}
		for _, q := range w.asked {
			if len(q.Flows.Networks) != c.networks || len(q.Flows.Namespaces) != c.spaces || q.Flows.Follow {
				t.Errorf("%s tries, and agents are asked for %+v", c.user, q.Flows)
			}
		}
	}
}
