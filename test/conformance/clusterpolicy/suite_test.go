// Package clusterpolicy runs upstream's conformance tests of ClusterNetworkPolicy, all of them.
//
//	KUBECONFIG=... go test -c -o suite.test . && ./suite.test -test.v -labels=KEY=VALUE
//
// The cluster has the definition of ClusterNetworkPolicy, of the experimental channel: some tests use fields of it.
package clusterpolicy

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
)

var labels = flag.String("labels", "", "a label, KEY=VALUE, for the namespaces of the tests")

func TestClusterNetworkPolicy(t *testing.T) {
	cfg, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := policyv1alpha2.Install(objects.Scheme()); err != nil {
		t.Fatal(err)
	}
	commands, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := suite.Options{
		Client: objects, ClientSet: commands, KubeConfig: *cfg, CleanupBaseResources: true, EnableAllSupportedFeatures: true,
		NamespaceLabels: map[string]string{},
	}
	if key, value, ok := strings.Cut(*labels, "="); ok {
		o.NamespaceLabels[key] = value
	}
	all := suite.New(o)
	all.Setup(t)
	all.Run(t, tests.ConformanceTests)
}
