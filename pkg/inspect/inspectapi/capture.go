package inspectapi

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// capturer tells of pods' packets.
type capturer struct {
	*handler
	nodes  Nodes
	agents askCapture
	crowd  *turns.Turns
}

func newCapturer(h *handler, nodes Nodes, agents askCapture) *capturer {
	return &capturer{handler: h, nodes: nodes, agents: agents, crowd: turns.New("captures", turns.Bounds{Every: 16, Each: 8, Kept: 4})}
}

// ServeHTTP implements http.Handler.
func (c *capturer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), nodeapi.CaptureTime+reviewTime)
	defer cancel()
	pod := model.PodKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	asked, left, err := c.comes(w, r, maxQuestion,
		func(asked request) error { return c.mayCreate(ctx, asked.who, api.SubresourceCapture, pod) })
	if err != nil {
		c.fail(w, err)
		return
	}
	left()
	leave, err := enter(c.crowd, asked.share)
	if err != nil {
		c.fail(w, err)
		return
	}
	defer leave()
	on, q, err := c.question(ctx, asked, pod)
	if err != nil {
		c.fail(w, err)
		return
	}
	log := c.log.With("user", asked.who.Name, "pod", pod, "uid", on.UID, "node", on.Node, "part", q.Part.Number)
	log.Info("packets of a pod are captured", "interface", q.Spec.Interface, "direction", q.Spec.Direction, "filter", q.Spec.Filter.String())
	out := &lines{w: w, control: http.NewResponseController(w)}
	told := 0
	err = c.agents(ctx, on, q, func(line nodeapi.CaptureLine) error {
		if line.Update != nil {
			told += len(line.Update.Packets)
		}
		return out.write(captureLine(on, q, line))
	})
	log.Info("packets of a pod are not captured any more", "told", told, "error", err)
	switch {
	case err != nil && !out.begun:
		c.fail(w, agentProblem(err))
	case err != nil:
		_ = out.write(api.PodCaptureLine{Error: err.Error()}) // Who asked may have gone.
	}
}

// question is what the pod's agent is asked.
func (c *capturer) question(ctx context.Context, asked request, pod model.PodKey) (snapshot.Sender, nodeapi.CaptureQuestion, error) {
	var in api.PodCapture
	if err := readQuestion(asked.text, &in); err != nil {
		return snapshot.Sender{}, nodeapi.CaptureQuestion{}, err
	}
	s := in.Spec
	spec, err := capture.SpecOf(s)
	q := nodeapi.CaptureQuestion{
		User: asked.who.Name, Account: asked.share, Spec: spec,
		Part: capture.Part{ID: s.ID, Number: s.Part, Time: s.Time.Duration, Last: s.Last},
	}
	for _, err := range []error{err, q.Spec.Check(), q.Part.Check()} {
		if err != nil {
			return snapshot.Sender{}, q, apierrors.NewBadRequest(err.Error())
		}
	}
	on, err := c.nodes.Sender(ctx, pod)
	if err != nil {
		return on, q, err
	}
	q.Pod = nodeapi.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: on.UID}
	return on, q, nil
}

// captureLine is what a user is told of what an agent says.
func captureLine(on snapshot.Sender, q nodeapi.CaptureQuestion, line nodeapi.CaptureLine) (out api.PodCaptureLine) {
	if line.Begun {
		out.Begun = &api.PodCaptureBegun{UID: on.UID, Network: on.Network, Node: on.Node, Filter: q.Spec.Filter.String()}
	}
	if line.Update != nil {
		out.Packets, out.Counts = line.Update.Packets, line.Update.Counts
	}
	out.End = (*api.PodCaptureEnd)(line.Outcome)
	return out
}
