package agent

import (
	"maps"
	"testing"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

func TestDroppedSince(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		before, now, want netdev.Dropped
	}{
		{"nothing yet", nil, netdev.Dropped{netdev.BoundBroadcasts: 0}, netdev.Dropped{}},
		{"the first ones", nil, netdev.Dropped{netdev.BoundBroadcasts: 3}, netdev.Dropped{netdev.BoundBroadcasts: 3}},
		{
			"more of one",
			netdev.Dropped{netdev.BoundBroadcasts: 3, netdev.BoundRequests: 5},
			netdev.Dropped{netdev.BoundBroadcasts: 3, netdev.BoundRequests: 9},
			netdev.Dropped{netdev.BoundRequests: 4},
		},
		{"set anew", netdev.Dropped{netdev.BoundPackets: 100}, netdev.Dropped{netdev.BoundPackets: 7}, netdev.Dropped{netdev.BoundPackets: 7}},
		{"set anew, and quiet", netdev.Dropped{netdev.BoundPackets: 100}, netdev.Dropped{netdev.BoundPackets: 0}, netdev.Dropped{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := since(test.before, test.now); !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestDroppedMessage(t *testing.T) {
	t.Parallel()
	got := droppedMessage("eth0", netdev.Bounds{Broadcasts: 200, Requests: 500, Packets: 9},
		netdev.Dropped{netdev.BoundBroadcasts: 7, netdev.BoundPackets: 2})
	want := "eth0 sends more than a pod may; dropped in the last 10s: 7 frames to all or to groups (at most 200 a second pass); 2 packets " +
		"of any kind (at most 9 a second pass)"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
