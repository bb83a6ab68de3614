package controller

import (
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// networkOf is the name of the Network that owner is; false when it is not one.
func networkOf(owner nb.Owner) (string, bool) {
	return strings.CutPrefix(string(owner), string(nb.NetworkOwner("")))
}

// nodeOf is the name of the node that owner is; false when it is not one.
func nodeOf(owner nb.Owner) (string, bool) {
	return strings.CutPrefix(string(owner), string(nb.NodeOwner("")))
}

// serviceOf is the Service that owner is; false when it is not one.
func serviceOf(owner nb.Owner) (model.ServiceKey, bool) {
	rest, ok := strings.CutPrefix(string(owner), "Service/")
	if !ok {
		return model.ServiceKey{}, false
	}
	namespace, name, ok := strings.Cut(rest, "/")
	return model.ServiceKey{Namespace: namespace, Name: name}, ok
}

// gatewayOf is the Gateway that owner is; false when it is not one.
func gatewayOf(owner nb.Owner) (model.GatewayKey, bool) {
	rest, ok := strings.CutPrefix(string(owner), "Gateway/")
	if !ok {
		return model.GatewayKey{}, false
	}
	namespace, name, ok := strings.Cut(rest, "/")
	return model.GatewayKey{Namespace: namespace, Name: name}, ok
}

// policyOf is the policy that owner is, and the Network; false when it is not one.
func policyOf(owner nb.Owner) (policyIn, bool) {
	rest, ok := strings.CutPrefix(string(owner), "Policy/")
	words := strings.Split(rest, "/")
	switch {
	case ok && len(words) == 3:
		return policyIn{model.PolicyKey{Kind: model.PolicyKind(words[1]), Name: words[2]}, words[0]}, true
	case ok && len(words) == 4:
		return policyIn{model.PolicyKey{Kind: model.PolicyKind(words[1]), Namespace: words[2], Name: words[3]}, words[0]}, true
	}
	return policyIn{}, false
}

// podOf is the pod that owner is; false when it is not one.
func podOf(owner nb.Owner) (model.PodKey, bool) {
	rest, ok := strings.CutPrefix(string(owner), "Pod/")
	if !ok {
		return model.PodKey{}, false
	}
	namespace, name, ok := strings.Cut(rest, "/")
	return model.PodKey{Namespace: namespace, Name: name}, ok
}
