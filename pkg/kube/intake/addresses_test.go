package intake

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// What a Network says of own addresses is read, and no more of it than the API allows.
func TestAddressesOfOthers(t *testing.T) {
	t.Parallel()
	in := &v1alpha1.Network{Spec: v1alpha1.NetworkSpec{
		Type: v1alpha1.NetworkVPC,
		CompatibleWith: []v1alpha1.CompatiblePeer{
			{Network: "red", Addresses: true}, {All: true}, {Network: "blue", Tenant: "acme", Addresses: true},
		},
	}}
	for i := range maxPeers + 1 {
		in.Spec.UsesAddressesOf = append(in.Spec.UsesAddressesOf, fmt.Sprint("n", i))
	}
	out := Network(in)
	want := []model.CompatiblePeer{{Network: "red", Mode: model.ByFace, Addresses: true}, {All: true, Mode: model.ByFace}}
	if !reflect.DeepEqual(out.CompatibleWith, want) {
		t.Errorf("compatible with %+v, want %+v", out.CompatibleWith, want)
	}
	if len(out.UsesAddressesOf) != maxPeers || out.UsesAddressesOf[0] != "n0" {
		t.Errorf("uses addresses of %v", out.UsesAddressesOf)
	}
}
