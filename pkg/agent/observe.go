package agent

import (
	"context"
	"fmt"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// Observe implements nodeapi.Answers. All is seen in the node's own network namespace: the node's ends of pods' and portholes'
// links, its tunnels, and what carries them.
func (i inquiry) Observe(ctx context.Context, q nodeapi.ObserveQuestion, each func(nodeapi.ObserveLine) error) error {
	if !i.pods.inSync() {
		return &nodeapi.RefusedError{What: "the agent has only just begun, and does not know the pods of its node yet", Temporary: true}
	}
	interfaces, err := i.interfaces()
	if err != nil {
		return err
	}
	return q.Watch.Run(ctx, func(h observe.Heard) error {
		line := nodeapi.ObserveLine{Dropped: h.Dropped}
		if h.Sighting != nil {
			p := interfaces[h.Sighting.Link]
			if p.Interface == "" {
				// It is newer than the question, as the link of a pod that is being made.
				if interfaces, err = i.interfaces(); err != nil {
					return err
				}
				p = interfaces[h.Sighting.Link]
			}
			if p.Interface == "" {
				p = nodeapi.Point{Kind: nodeapi.KindOther, Interface: fmt.Sprintf("interface %d, which has gone", h.Sighting.Link)}
			}
			p.Packet, p.Out, p.Time = h.Sighting.Packet, h.Sighting.Out, h.Sighting.Time
			line.Point = &p
		}
		return each(line)
	})
}

// interfaces are what the node's interfaces are, by their indexes.
func (i inquiry) interfaces() (map[int]nodeapi.Point, error) {
	links, err := netlinksafe.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make(map[int]nodeapi.Point, len(links))
	for _, link := range links {
		out[link.Attrs().Index] = i.what(link)
	}
	return out, nil
}

// what says what an interface of the node is.
func (i inquiry) what(link netlink.Link) nodeapi.Point {
	name := link.Attrs().Name
	p := nodeapi.Point{Kind: nodeapi.KindOther, Interface: name}
	if owner, ours := netdev.ParseOwner(name, link.Attrs().Alias); ours {
		p.Kind = nodeapi.KindPod
		if known, lives := i.pods.getByUID(owner.PodUID); lives {
			p.Pod = nodeapi.Pod{Namespace: known.key.Namespace, Name: known.key.Name, UID: known.uid}
		}
		return p
	}
	if network, ofNode, is := porthole.NetworkAt(link); is {
		p.Kind, p.Network = nodeapi.KindPorthole, network
		if ofNode {
			p.Kind = nodeapi.KindHost
		}
		return p
	}
	switch {
	case name == porthole.NodePort, name == porthole.EdgePort, name == model.NodeInterface, name == model.EdgeInterface:
		p.Kind = nodeapi.KindNode
	case link.Type() == "geneve":
		p.Kind = nodeapi.KindTunnel
	}
	return p
}
