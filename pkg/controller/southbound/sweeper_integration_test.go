//go:build integration

package southbound

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestPrivateRowsGoWithoutTheirChassis: a row of Chassis_Private whose chassis is gone goes as the chassis would have, when its
// node is shut out, or has had no Node for some time. That of a Node that is there stays.
func TestPrivateRowsGoWithoutTheirChassis(t *testing.T) {
	central := ovn.Start(t, true)
	sb := control(t, central.SBCtl)
	nodes := kubefake.NewClientset()
	for _, name := range []string{"n1", "out"} {
		if _, err := nodes.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, address := range map[string]string{"n1": "192.0.2.1", "out": "192.0.2.2", "gone": "192.0.2.3", "whole": "192.0.2.4"} {
		sb("chassis-add", name, "geneve", address, "--", "create", "Chassis_Private", "name="+name)
	}
	// As a node may by its role. ovn-sbctl's chassis-del would delete both.
	for _, name := range []string{"n1", "out", "gone"} {
		sb("destroy", "Chassis", name)
	}
	s := Sweeper{
		Kube: nodes, Southbound: ovsdb.Config{Addresses: []string{central.SBAddress()}, Log: slog.New(slog.DiscardHandler)},
		Learnt: NewLearnt(prometheus.NewRegistry()), GoneAfter: time.Hour, Log: slog.New(slog.DiscardHandler),
	}
	sweep := func(when string, want ...string) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		have := slices.Sorted(slices.Values(strings.Fields(sb("--bare", "--columns=name", "list", "Chassis_Private"))))
		if !slices.Equal(have, want) {
			t.Errorf("%s: there are private rows %q, want %q", when, have, want)
		}
	}
	sweep("nobody is shut out, and the time begins", "gone", "n1", "out", "whole")
	if _, err := shutout.Add(t.Context(), nodes, "out", time.Now()); err != nil {
		t.Fatal(err)
	}
	sweep("one is shut out", "gone", "n1", "whole")
	s.GoneAfter = 0
	sweep("the time is over", "n1")
	if have := sb("--bare", "--columns=name", "list", "Chassis"); have != "" {
		t.Errorf("there are chassis %q", have)
	}
}
