package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestPrintRestless(t *testing.T) {
	r := results{Processors: 2, Sizes: []size{{Tenants: 8}}, Restless: restless{Networks: 602, Spells: []spell{
		{RowSeconds: []float64{0.01, 0.02, 0.03}, CarriedSeconds: []float64{0.1, 0.3, 0.2}, Northd: 0.05, Others: 0.5},
		{
			What: "changes labels of pods", RowSeconds: []float64{0.1}, CarriedSeconds: []float64{1, 1.5, 0.5}, ChangesASecond: 120,
			RequestsASecond: 150,
			Refused:         0.2, Northd: 0.98, Missing: true, Controller: 0.25, AnewASecond: 2.5,
		},
	}}}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"among 602 Networks", "pod 3 was not there then", "row median 0.020 s, at most 0.030 s; by northd median 0.200 s, at most 0.300 s",
		"0.5 of 2",
		"another tenant changes labels of pods", "5.0 times the median, 5.0 times the longest", "120 changes/s, 20.0 % of 150 requests/s refused",
		"northd 0.98, controller 0.25; 2.5 times/s all flows anew",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "consumers of one Network") || strings.Contains(b.String(), "joined to each other") {
		t.Errorf("it tells what was not measured:\n%s", b.String())
	}
}

// A client that is refused would wait for a second, and the tenant of the measurement does not.
func TestRefusalsAreCountedAndNotWaitedFor(t *testing.T) {
	const refusals = 50
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > refusals {
			cancel()
		}
		w.Header().Set("Retry-After", "1000")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	r := &restlessTenant{answers: &answers{next: http.DefaultTransport}}
	var err error
	if r.kube, err = kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, Transport: r.answers}); err != nil {
		t.Fatal(err)
	}
	stop := r.start(ctx, r.label)
	<-ctx.Done()
	if err := stop(); err != nil {
		t.Error(err)
	}
	all, refused, changes := r.answers.all.Load(), r.answers.refused.Load(), r.changes.Load()
	if refused < refusals-restlessWorkers || all != refused || changes != 0 {
		t.Errorf("%d answers, %d refusals, %d changes", all, refused, changes)
	}
}

func TestRecomputed(t *testing.T) {
	const said = "Node: northd\n- recompute:            3\n- compute:              7\nNode: lflow\n- recompute:            5\n- compute: 9\n"
	if got, err := recomputed(said, "lflow"); err != nil || got != 5 {
		t.Errorf("%d, error %v", got, err)
	}
	if got, err := recomputed(said, "lflows"); err == nil {
		t.Errorf("%d, want an error", got)
	}
}
