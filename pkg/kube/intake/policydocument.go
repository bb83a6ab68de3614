package intake

import (
	"bytes"
	"encoding/json"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// PolicyDocument reads a policy of either kind as it is on the wire. A field that nobody knows is an error.
func PolicyDocument(text []byte) (*model.Policy, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	read := func(into any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			return fmt.Errorf("read %s: %w", kind.Kind, err)
		}
		return nil
	}
	switch [2]string{kind.APIVersion, kind.Kind} {
	case [2]string{networkingv1.SchemeGroupVersion.String(), string(model.NetworkPolicy)}:
		var p networkingv1.NetworkPolicy
		if err := read(&p); err != nil {
			return nil, err
		}
		if p.Namespace == "" || p.Name == "" {
			return nil, fmt.Errorf("read %s: it has no namespace, or no name", kind.Kind)
		}
		return NetworkPolicy(&p), nil
	case [2]string{policyv1alpha2.GroupVersion.String(), string(model.ClusterNetworkPolicy)}:
		var p policyv1alpha2.ClusterNetworkPolicy
		if err := read(&p); err != nil {
			return nil, err
		}
		if p.Name == "" {
			return nil, fmt.Errorf("read %s: it has no name", kind.Kind)
		}
		return ClusterNetworkPolicy(&p), nil
	}
	return nil, fmt.Errorf("%s of %s is no policy: NetworkPolicy of %s and ClusterNetworkPolicy of %s are", kind.Kind, kind.APIVersion,
		networkingv1.SchemeGroupVersion, policyv1alpha2.GroupVersion)
}
