package model

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestUnknownKeys(t *testing.T) {
	for _, tt := range []struct {
		what                string
		keys                Keys
		labels, annotations map[string]string
		want                []string
	}{
		{"nothing", PodKeys(), nil, nil, nil},
		{
			"what is known, and others' keys", PodKeys(),
			map[string]string{"app": "a", "atoll.dev/network": "red", "atoll.development/x": ""},
			map[string]string{"atoll.dev/nics": "[]", "atoll.dev/attachments": "[]", "k8s.v1.cni.cncf.io/network-status": ""},
			nil,
		},
		{
			"typos", PodKeys(),
			map[string]string{"atoll.dev/netwrok": "red"},
			map[string]string{"atoll.dev/nic": "[]"},
			[]string{
				"label atoll.dev/netwrok means nothing on pods; did you mean atoll.dev/network?",
				"annotation atoll.dev/nic means nothing on pods; did you mean atoll.dev/nics?",
			},
		},
		{
			"in the wrong place", PodKeys(),
			map[string]string{"atoll.dev/nics": "x"},
			map[string]string{"atoll.dev/network": "red"},
			[]string{
				"label atoll.dev/nics means nothing on pods: it is an annotation", "annotation atoll.dev/network means nothing on pods: it is a label",
			},
		},
		{
			"a namespace's on a pod", PodKeys(),
			map[string]string{"atoll.dev/tenant": "acme"},
			nil,
			[]string{"label atoll.dev/tenant means nothing on pods"},
		},
		{
			"what is known of namespaces", NamespaceKeys(),
			map[string]string{"atoll.dev/network": "red", "atoll.dev/tenant": "acme", "atoll.dev/infrastructure": "true"},
			map[string]string{"atoll.dev/external-ranges": "198.51.100.0/24"},
			nil,
		},
		{
			"a namespace's typo", NamespaceKeys(),
			map[string]string{"atoll.dev/tenent": "acme"},
			nil,
			[]string{"label atoll.dev/tenent means nothing on namespaces; did you mean atoll.dev/tenant?"},
		},
	} {
		if got := tt.keys.Unknown(tt.labels, tt.annotations); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.what, got, tt.want)
		}
	}
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("atoll.dev/x%d", i)] = ""
	}
	if got := PodKeys().Unknown(many, many); len(got) != maxUnknown {
		t.Errorf("of 200 unknown keys %d are told of, want %d", len(got), maxUnknown)
	}
}

// TestThePoliciesKnowTheSameKeys: what kubectl shows at once and what the controller's Events say later come from one list.
func TestThePoliciesKnowTheSameKeys(t *testing.T) {
	text, err := os.ReadFile("../../../dist/admission/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	for kind, keys := range map[string]Keys{"atoll-pod-keys": PodKeys(), "atoll-namespace-keys": NamespaceKeys()} {
		found := false
		for _, document := range documents {
			if !strings.Contains(document, "kind: ValidatingAdmissionPolicy\n") || !strings.Contains(document, "name: "+kind+"\n") {
				continue
			}
			found = true
			for what, list := range map[string][]string{"labels": keys.Labels, "annotations": keys.Annotations} {
				want := "!(k in ['" + strings.Join(list, "', '") + "'])"
				if !strings.Contains(document, want) {
					t.Errorf("%s does not know the %s %s", kind, what, want)
				}
			}
		}
		if !found {
			t.Errorf("there is no policy %s", kind)
		}
	}
}
