//go:build integration

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// change changes the settings by a merge patch.
func change(t *testing.T, s *apiserver.Server, patch string, more ...string) error {
	t.Helper()
	_, err := s.Kubectl(t.Context(), append([]string{"patch", "atollconfig", "cluster", "--type=merge", "--patch=" + patch}, more...)...)
	return err
}

func shownConfig(t *testing.T, s *apiserver.Server) *v1alpha1.AtollConfig {
	t.Helper()
	text, err := s.Kubectl(t.Context(), "get", "acfg", "cluster", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.AtollConfig{}
	if err := json.Unmarshal(text, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// testSettings: what the schema refuses, in which words.
func testSettings(t *testing.T, s *apiserver.Server) {
	for _, test := range []struct{ spec, refusal string }{
		{`{"serviceCIDRs":["10.96.0.0/12","fd00:10:96::/112","192.0.2.0/24"]}`, ""},
		{`{"closedCIDRs":["192.0.2.1/32","2001:db8::1/128"]}`, ""},
		{`{"serviceCIDRs":["10.96.0.0"]}`, "must be a range in CIDR notation"},
		{`{"serviceCIDRs":["10.96.0.1/12"]}`, "must begin with the first address of the range"},
		{`{"defaultSubnet":"10.0.0.0/31"}`, "must be /8 to /30 for IPv4"},
		{`{"faceCIDRs":["100.64.0.0/10","100.128.0.0/10"]}`, "two ranges must be one IPv4 and one IPv6"},
		{`{"gatewayCIDRs":["fd00::/64","fd01::/64"]}`, "two ranges must be one IPv4 and one IPv6"},
		{`{"faceCIDRs":["100.64.0.0/10","fd00::/64","fd01::/64"]}`, "must have at most 2 items"},
		{`{"dns":{"addresses":["kube-dns"]}}`, "must be an IP address"},
		{`{"dns":{"domain":"Cluster_Local"}}`, "should match"},
		{`{"maxPodConnections":{"insideNetwork":-1}}`, "greater than or equal to 0"},
		{`{"compatibility":{"maxJoined":1}}`, "greater than or equal to 2"},
		{`{"compatibility":{"maxJoined":257}}`, "less than or equal to 256"},
		// Nothing is in force yet.
		{`{"faceCIDRs":["100.64.0.0/16"],"defaultSubnet":"10.0.0.0/8","defaultNetwork":"first"}`, ""},
	} {
		t.Run(test.spec, func(t *testing.T) {
			expect(t, change(t, s, fmt.Sprintf(`{"spec":%s}`, test.spec), "--dry-run=server"), test.refusal)
		})
	}
	_, err := s.Kubectl(t.Context(), "create", "--dry-run=server", "-f", "testdata/another-config.yaml")
	expect(t, err, "its name is cluster")
}

// kept is a controller that leads, as far as settings go.
type kept struct {
	t    *testing.T
	s    *apiserver.Server
	used chan config.Settings
	stop func()
}

func keepSettings(t *testing.T, s *apiserver.Server) *kept {
	t.Helper()
	client, err := dynamic.NewForConfig(s.As(controller))
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{t: t, s: s, used: make(chan config.Settings, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		config.Keep(ctx, client, slog.New(slog.NewTextHandler(t.Output(), nil)), func(s config.Settings) { k.used <- s })
	})
	k.stop = func() { cancel(); running.Wait() }
	t.Cleanup(k.stop)
	return k
}

// uses wants the next settings that come into force.
func (k *kept) uses(faces, services string) {
	k.t.Helper()
	select {
	case s := <-k.used:
		if fmt.Sprint(s.Faces) != faces || fmt.Sprint(s.Services) != services {
			k.t.Fatalf("in force are faces %v and Services %v, want %s and %s", s.Faces, s.Services, faces, services)
		}
	case <-wait.Context(k.t, wait.Patience).Done():
		k.t.Fatal("no settings came into force")
	}
}

// says wants the condition, and nothing new in force.
func (k *kept) says(reason, message string) *v1alpha1.AtollConfig {
	k.t.Helper()
	var object *v1alpha1.AtollConfig
	var c *metav1.Condition
	if !soon(k.t, func() bool {
		object = shownConfig(k.t, k.s)
		c = meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConfigValid)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, message) && c.ObservedGeneration == object.Generation
	}) {
		k.t.Fatalf("the condition is %+v of generation %d, want %s with %q", c, object.Generation, reason, message)
	}
	select {
	case s := <-k.used:
		k.t.Fatalf("%+v came into force", s)
	default:
	}
	return object
}

// soon waits until something is so, and reports whether it came to be.
func soon(t *testing.T, so func() bool) bool {
	t.Helper()
	return wait.For(t.Context(), wait.Patience, func(context.Context) error {
		if !so() {
			return errors.New("it is not so")
		}
		return nil
	}) == nil
}

// testSettingsKept: what the controller that leads makes of the object, and what stays over a mistake, a restart and a deletion.
func testSettingsKept(t *testing.T, s *apiserver.Server) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const faces, services, fewer = "[100.64.0.0/10 fd64:a701::/64]", "[10.96.0.0/16 fd00:10:96::/112]", "[10.96.0.0/16]"
	first := keepSettings(t, s)
	first.uses(faces, services)
	first.says("InForce", "these settings are in force")

	// What pods run by cannot change any more.
	for spec, refusal := range map[string]string{
		`{"faceCIDRs":["100.64.0.0/16"]}`:       "the ranges of faces cannot change",
		`{"faceCIDRs":[]}`:                      "the ranges of faces cannot change",
		`{"faceCIDRs":null}`:                    "",
		`{"defaultSubnet":"10.0.0.0/8"}`:        "the default subnet cannot change",
		`{"defaultNetwork":"other"}`:            "the default Network cannot change",
		`{"gatewayCIDRs":["198.18.0.0/24"]}`:    "",
		`{"dns":{"addresses":["10.96.0.11"]}}`:  "",
		`{"infraNamespaces":["kube-system"]}`:   "",
		`{"maxPodConnections":null,"dns":null}`: "",
		`{"compatibility":{"maxJoined":2}}`:     "",
	} {
		expect(t, change(t, s, fmt.Sprintf(`{"spec":%s}`, spec), "--dry-run=server"), refusal)
	}

	// A mistake says so, and changes nothing; also for one who starts meanwhile.
	must(change(t, s, `{"spec":{"serviceCIDRs":["100.96.0.0/16"]}}`))
	object := first.says("InvalidSettings",
		"faceCIDRs: 100.64.0.0/10 overlaps 100.96.0.0/16 of serviceCIDRs; what status.active shows stays in force")
	if got := fmt.Sprint(object.Status.Active.ServiceCIDRs); got != services {
		t.Errorf("in force are Services %s", got)
	}
	first.stop()
	second := keepSettings(t, s)
	second.uses(faces, services)
	second.says("InvalidSettings", "stays in force")
	out, err := s.Kubectl(t.Context(), "get", "atollconfigs", "--no-headers")
	if got := strings.Join(strings.Fields(string(out))[:3], " "); err != nil || got != "cluster False InvalidSettings" {
		t.Errorf("kubectl shows %q (%v)", got, err)
	}
	must(change(t, s, `{"spec":{"serviceCIDRs":["10.96.0.0/16"]}}`))
	second.uses(faces, fewer)
	second.says("InForce", "")

	// One that is deleted comes back with what is in force.
	_, err = s.Kubectl(t.Context(), "delete", "atollconfig", "cluster")
	must(err)
	if !soon(t, func() bool {
		_, err = s.Kubectl(t.Context(), "get", "atollconfig", "cluster")
		return err == nil
	}) {
		t.Fatal(err)
	}
	object = second.says("InForce", "")
	if got := fmt.Sprint(object.Spec.ServiceCIDRs); got != fewer {
		t.Errorf("it came back with Services %s", got)
	}
	second.stop()

	// Where nobody ever made one, there are the defaults, which belong to nobody.
	_, err = s.Kubectl(t.Context(), "delete", "atollconfig", "cluster")
	must(err)
	third := keepSettings(t, s)
	third.uses(faces, "[]")
	third.says("InForce", "")
	if _, err := s.Kubectl(t.Context(), "apply", "--server-side", "-f", dist+"/config/config.yaml"); err != nil {
		t.Errorf("somebody applies his own: %v", err)
	}
	third.uses(faces, "[10.96.0.0/12]")
	third.stop()

	// A first one that is wrong brings nothing into force, and can be mended in whatever is wrong.
	_, err = s.Kubectl(t.Context(), "delete", "atollconfig", "cluster")
	must(err)
	_, err = s.Kubectl(t.Context(), "create", "-f", "testdata/wrong-config.yaml")
	must(err)
	fourth := keepSettings(t, s)
	if object := fourth.says("NothingInForce", "no pod gets a network until it is mended"); object.Status.Active != nil {
		t.Errorf("in force: %+v", object.Status.Active)
	}
	must(change(t, s, `{"spec":{"faceCIDRs":["100.96.0.0/16"]}}`))
	fourth.uses("[100.96.0.0/16]", "[100.64.0.0/16]")
}
