package kube

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// TestMirrorsLookAtWhatChanged: a mirror that is wanted as before is not looked at again, one that differs is.
func TestMirrorsLookAtWhatChanged(t *testing.T) {
	mirror := func(address string) model.Mirror {
		return model.Mirror{
			Network: "red", Source: model.SliceKey{Namespace: "red", Name: "web-abcde"}, SourceUID: "u-1", Service: "web",
			Endpoints: []model.Endpoint{{Address: netip.MustParseAddr(address)}},
		}
	}
	service := model.ServiceKey{Namespace: "red", Name: "web"}
	key := intake.MirrorKey(mirror("10.0.0.5"))
	m := &mirrors{byService: map[model.ServiceKey]map[model.SliceKey]*model.Mirror{}}
	for i, step := range []struct {
		want    []model.Mirror
		touched []model.SliceKey
	}{
		{[]model.Mirror{mirror("10.0.0.5")}, []model.SliceKey{key}},
		{[]model.Mirror{mirror("10.0.0.5")}, nil},
		{[]model.Mirror{mirror("10.0.0.6")}, []model.SliceKey{key}},
		{nil, []model.SliceKey{key}},
		{nil, nil},
	} {
		got := slices.Collect(maps.Keys(m.changed(map[model.ServiceKey][]model.Mirror{service: step.want})))
		if !slices.Equal(got, step.touched) {
			t.Errorf("step %d: %v are looked at, want %v", i, got, step.touched)
		}
	}
}
