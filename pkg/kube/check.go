package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// UserConfig is the way to the API server that kubectl takes: that of a kubeconfig file, or with an empty name
// those of KUBECONFIG, ~/.kube/config, or the pod that we run in. agent is our name towards the server. There
// is no limit on requests: it is for programs that ask a few and end.
func UserConfig(kubeconfig, agent string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w. Next: name one with --kubeconfig, or in KUBECONFIG", err)
	}
	cfg.QPS = -1
	cfg.UserAgent = agent + "/" + version()
	return cfg, nil
}

// Probe asks the API server for one object of each kind, so that a server that does not answer, or refuses, is
// an error at once. Run asks again for ever.
func (f *Feed) Probe(ctx context.Context) error {
	for _, s := range f.kinds {
		lister := cache.ToListerWatcherWithContext(s.Lister)
		if _, err := lister.ListWithContext(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("list %s: %w", s.Name, err)
		}
	}
	_, err := f.lookForGateways(ctx)
	return err
}

// Shown is what a Network's status tells its users, as far as it can be checked.
type Shown struct {
	ObservedGeneration int64
	Phase              model.Phase
	Pods               int64
}

// Shown is what the status of the Network with that name and UID tells; false when the Network is not known.
func (f *Feed) Shown(name, uid string) (Shown, bool) {
	s, known := f.statuses.get(name, uid)
	return Shown{ObservedGeneration: s.ObservedGeneration, Phase: model.Phase(s.Phase), Pods: s.Pods}, known
}

// UserNamespace is the namespace that kubectl takes when none is named: that of the kubeconfig's context.
func UserNamespace(kubeconfig string) (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).Namespace()
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	return namespace, nil
}
