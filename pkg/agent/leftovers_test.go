package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

func TestLeftovers(t *testing.T) {
	t.Parallel()
	owner := func(container, uid string) netdev.Owner {
		return netdev.Owner{ContainerID: container, Interface: "eth0", PodUID: uid, Netns: "/netns/" + container}
	}
	link := func(container, uid string, index int) netdev.Owned {
		return netdev.Owned{Owner: owner(container, uid), Index: index}
	}
	port := func(container, pod string) vswitch.Port {
		o := owner(container, "")
		return vswitch.Port{Name: o.HostName(), IfaceID: pod, Sandbox: container, Interface: "eth0", Netns: o.Netns}
	}
	for _, test := range []struct {
		name  string
		ports []vswitch.Port
		links []netdev.Owned
		gone  []string
		want  leftovers
	}{
		{name: "nothing"},
		{
			name:  "a pod that lives",
			ports: []vswitch.Port{port("c1", "red/one")},
			links: []netdev.Owned{link("c1", "u1", 5)},
		},
		{
			name:  "link and namespace are gone",
			ports: []vswitch.Port{port("c1", "red/one")},
			gone:  []string{"/netns/c1"},
			want:  leftovers{ports: []vswitch.Port{port("c1", "red/one")}},
		},
		{
			name:  "only the namespace cannot be seen",
			ports: []vswitch.Port{port("c1", "red/one")},
			links: []netdev.Owned{link("c1", "u1", 5)},
			gone:  []string{"/netns/c1"},
		},
		{
			name:  "only the link is gone",
			ports: []vswitch.Port{port("c1", "red/one")},
		},
		{
			name:  "a link whose pod has gone",
			links: []netdev.Owned{link("c9", "u9", 5)},
			want:  leftovers{links: []netdev.Owner{owner("c9", "u9")}},
		},
		{
			name:  "a link of an older sandbox",
			ports: []vswitch.Port{port("c2", "red/one")},
			links: []netdev.Owned{link("c1", "u1", 5), link("c2", "u1", 7)},
			want:  leftovers{links: []netdev.Owner{owner("c1", "u1")}},
		},
		{
			name:  "the database was lost",
			links: []netdev.Owned{link("c1", "u1", 5), link("c2", "u2", 7)},
			want:  leftovers{lost: []netdev.Owner{owner("c1", "u1"), owner("c2", "u2")}},
		},
		{
			name:  "the database was lost, and a pod has two sandboxes",
			links: []netdev.Owned{link("c3", "u1", 9), link("c1", "u1", 5), link("c2", "u1", 7)},
			want: leftovers{
				links: []netdev.Owner{owner("c1", "u1"), owner("c2", "u1")},
				lost:  []netdev.Owner{owner("c3", "u1")},
			},
		},
		{
			name:  "the pod's only port is stale, its link lost its own",
			ports: []vswitch.Port{port("c1", "red/one")},
			links: []netdev.Owned{link("c2", "u1", 5)},
			gone:  []string{"/netns/c1"},
			want: leftovers{
				ports: []vswitch.Port{port("c1", "red/one")},
				lost:  []netdev.Owner{owner("c2", "u1")},
			},
		},
		{
			name:  "a port without its iface-id",
			ports: []vswitch.Port{port("c1", "")},
			links: []netdev.Owned{link("c1", "u1", 5)},
			want:  leftovers{changed: []netdev.Owner{owner("c1", "u1")}},
		},
		{
			name:  "a port with another pod's iface-id",
			ports: []vswitch.Port{port("c1", "red/two"), port("c2", "red/two")},
			links: []netdev.Owned{link("c1", "u1", 5), link("c2", "u2", 7)},
			want:  leftovers{changed: []netdev.Owner{owner("c1", "u1")}},
		},
		{
			name:  "two sandboxes of a pod with ports",
			ports: []vswitch.Port{port("c1", "red/one"), port("c2", "red/one")},
			links: []netdev.Owned{link("c2", "u1", 7), link("c1", "u1", 5)},
			want:  leftovers{twins: []vswitch.Port{port("c1", "red/one")}},
		},
		{
			name:  "a newer link without a port, and the port without its iface-id",
			ports: []vswitch.Port{port("c1", "")},
			links: []netdev.Owned{link("c1", "u1", 5), link("c2", "u1", 7)},
			want:  leftovers{links: []netdev.Owner{owner("c2", "u1")}, changed: []netdev.Owner{owner("c1", "u1")}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pods := newPods()
			pods.set(pod{key: model.PodKey{Namespace: "red", Name: "one"}, uid: "u1"})
			pods.set(pod{key: model.PodKey{Namespace: "red", Name: "two"}, uid: "u2"})
			gone := map[string]bool{}
			for _, path := range test.gone {
				gone[path] = true
			}
			got := inventory{
				ports: test.ports, links: test.links,
				netnsGone: func(path string) bool { return gone[path] },
				podOf:     pods.getByUID,
				wanted: func(o netdev.Owner) (vswitch.Port, bool) {
					p, lives := pods.getByUID(o.PodUID)
					return vswitch.Port{Name: o.HostName(), IfaceID: p.key.String(), Sandbox: o.ContainerID, Interface: o.Interface, Netns: o.Netns}, lives
				},
			}.leftovers()
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(leftovers{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
