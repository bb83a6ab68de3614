package inspectapi

import (
	"net/http"
	"strings"
	"testing"
)

// TestWhoMayAskWhat: a question is answered by the rights of who asks, and not looked up without any; rows underneath need one of
// their own.
func TestWhoMayAskWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const (
		question = `{"spec":{"from":"acme/web","to":"outside","protocol":"icmp"}}`
		raw      = `{"spec":{"from":"acme/web","to":"outside","protocol":"icmp","raw":true}}`
	)
	for _, c := range []struct {
		user, path, body string
		status           int
		told             string
		// looks: the answer was looked up.
		looks bool
	}{
		{"operator", "/explanations", question, http.StatusCreated, `"verdict":"everything"`, true},
		{"operator", "/namespaces/acme/explanations", question, http.StatusCreated, `"verdict":"everything"`, true},
		{"operator", "/explanations", raw, http.StatusCreated, `"verdict":"everything"`, true},
		{"operator", "/explanations", `{`, http.StatusBadRequest, "read the question", false},
		{"operator", "/explanations", `{}`, http.StatusBadRequest, "from whom?", true},
		{"operator", "/explanations", strings.Repeat(" ", maxQuestion+1), http.StatusRequestEntityTooLarge, "at most", false},
		{"viewer", "/explanations", question, http.StatusCreated, `"verdict":"everything"`, true},
		{"viewer", "/explanations", raw, http.StatusForbidden, `cannot create resource "explanations/raw"`, false},
		{"jo", "/explanations", question, http.StatusForbidden, `User "jo" cannot create resource "explanations"`, false},
		{"jo", "/namespaces/umbrella/explanations", question, http.StatusForbidden, `in the namespace "umbrella"`, false},
		{"jo", "/namespaces/acme/explanations", question, http.StatusCreated, `"verdict":"of acme true, of umbrella false"`, true},
		{"jo", "/namespaces/acme/explanations", raw, http.StatusForbidden, `cannot create resource "explanations/raw"`, false},
		{"ann", "/namespaces/acme/explanations", question, http.StatusForbidden, "is forbidden", false},
		{"", "/explanations", question, http.StatusUnauthorized, "nobody says who asks", false},
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
