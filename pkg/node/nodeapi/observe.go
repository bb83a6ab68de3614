package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	pathObserve = "/observe"
	// maxObservationsAtOnce is how many an agent makes at the same time: each has every packet of the node go through a filter.
	maxObservationsAtOnce = 4
	// observeTime bounds the answer to one question.
	observeTime = observe.MaxTime + 2*dialTime
	// maxBeats is how many lines an answer has beside sightings: one with each beat.
	maxBeats = 400
)

// ObserveQuestion asks where marked packets are seen on a node.
type ObserveQuestion struct {
	// User is on whose account, for the log, and Pod from which one they are sent, which is on this node or on another.
	User string `json:"user"`
	// Account is whose turns it takes.
	Account turns.Who     `json:"account,omitzero"`
	Pod     Pod           `json:"pod"`
	Watch   observe.Watch `json:"watch"`
}

// Check says what is wrong with it.
func (q ObserveQuestion) Check() error { return errors.Join(named(q.User, q.Pod), q.Watch.Check()) }

func (q ObserveQuestion) by() turns.Who { return share(q.Account, q.User) }

// Kind is what an interface of a node is.
type Kind string

// The kinds.
const (
	// KindPod is the link of a pod: what goes out there goes to the pod.
	KindPod Kind = "pod"
	// KindPorthole is the link from OVN to the porthole of a Network, KindHost that from the porthole to the node.
	KindPorthole Kind = "porthole"
	KindHost     Kind = "host"
	// KindNode is a link of the node's own to OVN: to the default Network, and for what leaves it.
	KindNode Kind = "node"
	// KindTunnel is the kernel's interface of all tunnels, KindOther any other interface.
	KindTunnel Kind = "tunnel"
	KindOther  Kind = "other"
)

// Point is where on a node a packet was seen.
type Point struct {
	observe.Packet
	Kind      Kind   `json:"kind"`
	Interface string `json:"interface"`
	// Out: it left by the interface; else it came in.
	Out bool `json:"out,omitempty"`
	// Pod is whose link it is, and Network the Network of a porthole.
	Pod     Pod    `json:"pod,omitzero"`
	Network string `json:"network,omitempty"`
	// Time is by the node's clock, in nanoseconds since 1970.
	Time int64 `json:"time"`
}

// ObserveLine is a part of an answer: a point, or that all has been told that there was before.
type ObserveLine struct {
	Point *Point `json:"point,omitempty"`
	// Dropped is how many packets were not looked at, for want of room.
	Dropped uint64 `json:"dropped,omitempty"`
	// End: it is whole. Error is why it is not.
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

func (h *handler) observe(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := begin[ObserveQuestion](w, r, maxQuestion, h.observations)
	if !ok {
		return
	}
	defer leave()
	h.log.Info("marked packets are watched for", "user", shortened(q.User), "pod", q.Pod.Key(), "uid", q.Pod.UID, "protocol", q.Watch.Protocol,
		"time", q.Watch.Time)
	ctx, cancel := context.WithTimeout(r.Context(), observeTime)
	defer cancel()
	out := &lines{w: w, control: http.NewResponseController(w)}
	switch err := h.answers.Observe(ctx, q, func(line ObserveLine) error { return out.write(line) }); {
	case err != nil && !out.begun:
		refuseFor(w, err)
	case err != nil:
		_ = out.write(ObserveLine{Error: err.Error()}) // Who asked may have gone.
	default:
		_ = out.write(ObserveLine{End: true})
	}
}

// Observe makes a node's agent watch for marked packets, and calls each for every line but the last. The first line comes once
// packets are seen. Its errors are those of Ping.
func (c Client) Observe(ctx context.Context, q ObserveQuestion, each func(ObserveLine) error) error {
	q.User = bounded(q.User)
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	body, err := c.ask(ctx, pathObserve, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return c.readObserved(body, q, each)
}

// readObserved reads an answer: no more points than there may be, of no packets that nobody asked for.
func (c Client) readObserved(body io.Reader, q ObserveQuestion, each func(ObserveLine) error) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, maxLine), maxLine)
	wrong := func(what string) error { return fmt.Errorf("read the answer of node %s: %s", c.Node, what) }
	points, beats := 0, 0
	for scanner.Scan() {
		var line ObserveLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
		}
		switch p := line.Point; {
		case line.End:
			return nil
		case line.Error != "":
			return &RefusedError{What: fmt.Sprintf("node %s: %s", c.Node, line.Error)}
		case p == nil:
			beats++
		case p.Target < 0 || p.Target >= q.Watch.Targets || !whole(p):
			return wrong("it is about a packet that nobody has asked for")
		default:
			points++
		}
		if points > observe.MaxSightings || beats > maxBeats {
			return wrong("it is longer than it may be")
		}
		if err := each(line); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
	}
	return wrong("it is not whole")
}

// whole reports whether a point says where and when, of whom and to whom.
func whole(p *Point) bool {
	addresses := []netip.Addr{p.From.Addr(), p.To.Addr()}
	if p.Tunnel != (observe.Tunnel{}) {
		addresses = append(addresses, p.Tunnel.From, p.Tunnel.To)
	}
	for _, a := range addresses {
		if !a.IsValid() || a.Zone() != "" {
			return false
		}
	}
	return p.Kind != "" && p.Interface != "" && p.Time > 0
}
