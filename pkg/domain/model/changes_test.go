package model_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestChangesOfAllKinds(t *testing.T) {
	t.Parallel()
	c := model.NewChanges()
	if !c.Empty() {
		t.Error("new changes are not empty")
	}
	for kind, objects := range reflect.ValueOf(c).Fields() {
		if objects.IsNil() {
			t.Errorf("nothing can be added to new %s", kind.Name)
		}
	}
	newer := model.NewChanges()
	pod := model.PodKey{Namespace: "r", Name: "a"}
	newer.Pods[pod], newer.Nodes["n1"], newer.Networks["red"] = &model.Pod{UID: "1"}, &model.Node{}, nil
	c.Networks["red"] = &model.Network{}
	c.Merge(newer)
	if c.Empty() || c.Pods[pod].UID != "1" || c.Nodes["n1"] == nil || c.Networks["red"] != nil || len(c.Networks) != 1 {
		t.Errorf("merged: %+v", c)
	}
	c.Settle()
	if diff := cmp.Diff(map[string]*model.Network{}, c.Networks); diff != "" || len(c.Pods) != 1 {
		t.Errorf("what has gone is still there (-want +got):\n%s", diff)
	}
}
