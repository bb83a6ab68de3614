package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Atoll's objects.
const GroupName = "atoll.dev"

// Version is the version of the API that this package holds.
const Version = "v1alpha1"

// SchemeGroupVersion is the group and version of every object in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: Version}

// AddToScheme teaches s the objects of this package, so that clients made with s can read and write them.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion, &Network{}, &NetworkList{}, &NetworkView{}, &NetworkViewList{}, &NodeReport{}, &NodeReportList{},
		&AtollConfig{}, &AtollConfigList{}, &Tenant{}, &TenantList{})
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
