package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// NodeChecks are those of all nodes.
func (r *Remote) NodeChecks(ctx context.Context) (all []api.NodeCheck, down string, err error) {
	var out api.NodeCheckList
	down, err = r.get(ctx, &out, api.ResourceNodeChecks)
	return out.Items, down, err
}

// NodeCheck is that of a node. That nobody answers is an error.
func (r *Remote) NodeCheck(ctx context.Context, node string) (out api.NodeCheck, err error) {
	down, err := r.get(ctx, &out, api.ResourceNodeChecks, node)
	if err == nil && down != "" {
		err = errors.New(down)
	}
	return out, err
}

// RepairNode has the agent of a node put right what differs, and says what is left, and what was repaired. That nobody answers is an error.
func (r *Remote) RepairNode(ctx context.Context, node string) (out api.NodeCheck, err error) {
	in := api.NodeCheck{
		TypeMeta: meta.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: "NodeCheck"}, ObjectMeta: meta.ObjectMeta{Name: node},
		Spec: api.NodeCheckSpec{Repair: true},
	}
	text, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("write the question: %w", err)
	}
	request := r.client.Discovery().RESTClient().Put().SetHeader("Content-Type", "application/json").Body(text)
	down, err := r.ask(ctx, request, &out, []string{api.ResourceNodeChecks, node})
	switch {
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%w. It takes the verbs get and update of %s, which ClusterRole atoll-repair has", err, api.ResourceNodeChecks)
	case err == nil && down != "":
		err = errors.New(down)
	}
	return out, err
}
