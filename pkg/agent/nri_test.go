package agent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestOwnAddresses(t *testing.T) {
	const dual = `[{"podUID":"u1","interface":"eth0","network":"red","networkUID":"n1","mac":"0e:00:00:00:00:01",
		"addresses":["10.0.0.5/24","fd00::5/64"],"faces":["100.64.1.5","fd64::5"]}]`
	both := []nri.Pair{
		{Face: netip.MustParseAddr("100.64.1.5"), Own: netip.MustParseAddr("10.0.0.5")},
		{Face: netip.MustParseAddr("fd64::5"), Own: netip.MustParseAddr("fd00::5")},
	}
	web := model.PodKey{Namespace: "red", Name: "web"}
	for _, test := range []struct {
		name  string
		pod   pod
		asked nri.Pod
		want  nri.Known
		found bool
	}{
		{
			"both families",
			pod{key: web, uid: "u1", attachments: dual},
			nri.Pod{Namespace: "red", Name: "web", UID: "u1"},
			nri.Known{UID: "u1", Pairs: both},
			true,
		},
		{
			"a static pod",
			pod{key: web, uid: "u1", staticUID: "s1", attachments: dual},
			nri.Pod{Namespace: "red", Name: "web", UID: "s1"},
			nri.Known{UID: "u1", Pairs: both},
			true,
		},
		{
			"an earlier pod of the name",
			pod{key: web, uid: "u1", attachments: dual},
			nri.Pod{Namespace: "red", Name: "web", UID: "u0"},
			nri.Known{},
			false,
		},
		{
			"a pod of another namespace",
			pod{key: web, uid: "u1", attachments: dual},
			nri.Pod{Namespace: "blue", Name: "web", UID: "u1"},
			nri.Known{},
			false,
		},
		{
			"another pod's annotation",
			pod{key: web, uid: "u2", attachments: dual},
			nri.Pod{Namespace: "red", Name: "web", UID: "u2"},
			nri.Known{UID: "u2"},
			true,
		},
		{"no annotation", pod{key: web, uid: "u1"}, nri.Pod{Namespace: "red", Name: "web", UID: "u1"}, nri.Known{UID: "u1"}, true},
		{
			"a pod that is its own face",
			pod{key: web, uid: "u1", attachments: strings.ReplaceAll(dual, "faces", "other")},
			nri.Pod{Namespace: "red", Name: "web", UID: "u1"},
			nri.Known{UID: "u1"},
			true,
		},
		{
			"an annotation that cannot be the controller's",
			pod{key: web, uid: "u1", attachments: strings.ReplaceAll(dual, "100.64.1.5", "127.0.0.1")},
			nri.Pod{Namespace: "red", Name: "web", UID: "u1"},
			nri.Known{UID: "u1"},
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			metrics, err := newMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			a := newAgent(Config{}, nil, nil, metrics, nil)
			a.pods.set(test.pod)
			got, found := a.ownAddresses(test.asked)
			equal := cmp.Comparer(func(x, y netip.Addr) bool { return x == y })
			if diff := cmp.Diff(test.want, got, equal); diff != "" || found != test.found {
				t.Errorf("ownAddresses = %v, want %v (-want +got):\n%s", found, test.found, diff)
			}
		})
	}
}
