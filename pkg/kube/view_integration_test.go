//go:build integration

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// TestViews: what is wanted is written once, comes back when somebody changes or deletes it, and goes; a controller that starts again
// writes nothing that is there, and removes what nobody wants.
func TestViews(t *testing.T) {
	l := newLab(t)
	admin, err := newClients(l.server.RESTConfig())
	must(t, err)
	api := admin.network
	red, blue := model.ViewKey{Namespace: "default", Network: "red"}, model.ViewKey{Namespace: "default", Network: "blue"}
	view := func(pods ...string) *model.View {
		v := &model.View{
			Type: model.VPC, Phase: model.Ready, Reason: "Ready", Message: "well", Egress: model.EgressNode, Infra: model.InfraServices,
			DNS: model.DNSNode,
			Subnets: []model.ViewedSubnet{
				{Name: "a", CIDR: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Used: int64(len(pods))},
			},
			Pods: int64(len(pods)),
		}
		for _, name := range pods {
			v.Addresses = append(v.Addresses, model.ViewedPod{Name: name, Subnet: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}})
		}
		return v
	}
	until := func(what string, key model.ViewKey, met func(*v1alpha1.NetworkView) bool) (v *v1alpha1.NetworkView) {
		t.Helper()
		wait.Eventually(t, wait.Patience, what, func(context.Context) error {
			v = &v1alpha1.NetworkView{}
			err := api.Get().Namespace(key.Namespace).Resource("networkviews").Name(key.Network).Do(l.ctx).Into(v)
			if err != nil {
				v = nil
			}
			if !met(v) {
				return errors.Join(err, fmt.Errorf("it is %+v", v))
			}
			return nil
		})
		return v
	}
	has := func(pods int64) func(*v1alpha1.NetworkView) bool {
		return func(v *v1alpha1.NetworkView) bool {
			return v != nil && v.Status.Pods == pods && len(v.Status.Addresses) == int(pods) && v.Status.Phase == "Ready"
		}
	}
	gone := func(v *v1alpha1.NetworkView) bool { return v == nil }

	writer, stop := l.anotherWriter()
	writer.WriteViews(map[model.ViewKey]*model.View{red: view("one"), blue: view()})
	first := until("the first view", red, has(1))
	until("the second view", blue, has(0))
	first.Status.Pods = 7
	must(t, api.Put().Namespace("default").Resource("networkviews").Name("red").Body(first).Do(l.ctx).Error())
	until("its return to what it was", red, has(1))
	must(t, api.Delete().Namespace("default").Resource("networkviews").Name("red").Body(&metav1.DeleteOptions{}).Do(l.ctx).Error())
	until("its return", red, has(1))
	writer.WriteViews(map[model.ViewKey]*model.View{red: view("one", "two")})
	version := until("the change", red, has(2)).ResourceVersion
	must(t, writer.Flush(l.ctx))
	stop()

	next, stop := l.anotherWriter()
	defer stop()
	next.WriteViews(map[model.ViewKey]*model.View{red: view("one", "two")})
	until("the end of what nobody wants", blue, gone)
	must(t, next.Flush(l.ctx))
	if now := until("the view", red, has(2)).ResourceVersion; now != version {
		t.Errorf("a view that was right was written again: version %s, then %s", version, now)
	}
	next.WriteViews(map[model.ViewKey]*model.View{red: nil})
	until("the end", red, gone)
}
