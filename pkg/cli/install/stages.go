package install

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// system is the namespace of Atoll.
const system = "atoll-system"

// The names of the programs' workloads.
const (
	centralName    = "atoll-ovn-central"
	controllerName = "atoll-controller"
	inspectName    = "atoll-inspect"
	ovnNodeName    = "atoll-ovn-node"
	agentName      = "atoll-agent"
	dnsName        = "atoll-dns"
)

// stage is what is applied together. Later stages need what is in earlier ones.
type stage int

const (
	// foundations are namespaces, and definitions of kinds.
	foundations stage = iota
	// rights are identities with their rights, and what programs read.
	rights
	// settings are objects of Atoll's own kinds. Policies that have no AtollConfig refuse every Service, so it comes before them.
	settings
	// policies are what the API server refuses from then on.
	policies
	// programs are the workloads, and all that is of no other stage.
	programs
	stages
)

var stageTitles = [stages]string{
	foundations: "namespaces and definitions", rights: "identities and rights", settings: "settings and the default Network",
	policies: "admission policies", programs: "programs",
}

// stageOf is the stage of an object.
func stageOf(o *unstructured.Unstructured) stage {
	gk := o.GroupVersionKind().GroupKind()
	switch gk.Group {
	case "apiextensions.k8s.io":
		return foundations
	case "rbac.authorization.k8s.io":
		return rights
	case "atoll.dev":
		return settings
	case "admissionregistration.k8s.io":
		return policies
	case "":
		switch gk.Kind {
		case "Namespace":
			return foundations
		case "ServiceAccount", "ConfigMap", "Secret":
			return rights
		}
	}
	return programs
}

// isWorkload reports whether pods are made from the object.
func isWorkload(o *unstructured.Unstructured) bool {
	return isKind(o, "apps", "DaemonSet") || isKind(o, "apps", "Deployment") || isKind(o, "apps", "StatefulSet")
}

// upgradeOrder is the order in which programs are upgraded; each is waited for before the next. A program that is not listed
// comes last. Inspection gets its certificates from the controller that leads.
var upgradeOrder = []string{centralName, controllerName, inspectName, ovnNodeName, agentName, dnsName}

// leadsTo reports whether an object is a workload's Service, which has the workload's name. In an upgrade the Service is applied
// when the workload's pods are ready. Until then it leads to the pods that answered before, which may belong to another workload.
func leadsTo(o, workload *unstructured.Unstructured) bool {
	return isKind(o, "", "Service") && o.GetName() == workload.GetName() && o.GetNamespace() == workload.GetNamespace()
}

// split sorts objects into stages, keeping their order in each.
func split(objects []*unstructured.Unstructured) [stages][]*unstructured.Unstructured {
	var out [stages][]*unstructured.Unstructured
	for _, o := range objects {
		at := stageOf(o)
		out[at] = append(out[at], o)
	}
	return out
}
