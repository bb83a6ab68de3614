//go:build integration

package api

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/apiserver"
)

// testUpgrade runs the commands by which docs/install.md removes what earlier manifests left: that goes, and nothing that the manifests have.
func testUpgrade(t *testing.T, s *apiserver.Server) {
	const kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
	list := func() []string {
		t.Helper()
		out, err := s.Kubectl(t.Context(), "get", kinds, "-o", "name")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	before := list()
	var left strings.Builder
	for _, name := range []string{"atoll-probes", "atoll-pod-keys"} {
		fmt.Fprintf(&left, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: %[1]s, validationActions: [Warn]}
`, name)
	}
	left.WriteString(`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: atoll-probes}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
`)
	file := t.TempDir() + "/left.yaml"
	if err := os.WriteFile(file, []byte(left.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), "apply", "--server-side", "-f", file); err != nil {
		t.Fatal(err)
	}
	if have := list(); len(have) != len(before)+3 {
		t.Fatalf("the earlier objects are not there, or are of today's manifests: %q", have)
	}
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Upgrade\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if command, found := strings.CutPrefix(line, "    kubectl delete "); found {
			if _, err := s.Kubectl(t.Context(), append([]string{"delete"}, strings.Fields(command)...)...); err != nil {
				t.Error(err)
			}
		}
	}
	if after := list(); !slices.Equal(after, before) {
		t.Errorf("after the commands there are %q, want %q", after, before)
	}
}
