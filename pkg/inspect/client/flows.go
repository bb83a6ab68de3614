package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// flowSilence is how long the client waits without hearing anything before it treats the API as gone. A controller that is followed
// sends a sign of life every 5 s.
const flowSilence = 20 * time.Second

// UntoldError says that the API that serves flows does not answer.
type UntoldError struct{ Note string }

// Error implements error.
func (e *UntoldError) Error() string {
	return e.Note + ". Flows are kept by the nodes' agents, which it asks"
}

// FlowScope says whose flows are asked for: those of a Network, else those of a namespace's pods, else all that the user may see.
// With both set, the namespace selects within the Network.
type FlowScope struct{ Network, Namespace string }

// path returns the API's path for these flows.
func (s FlowScope) path(query url.Values, follow bool) string {
	root := fmt.Sprintf("/apis/%s/", api.GroupVersion())
	switch {
	case s.Network != "" && follow:
		query.Set(api.FlowNetwork, s.Network)
	case s.Network != "":
		root += api.ResourceFlows + "/" + url.PathEscape(s.Network)
	case s.Namespace != "":
		return root + "namespaces/" + url.PathEscape(s.Namespace) + "/" + api.ResourcePodFlows
	}
	if s.Namespace != "" {
		query.Set(api.FlowNamespace, s.Namespace)
	}
	if s.Network == "" || follow {
		root += api.ResourceFlows
	}
	return root
}

// errRenew says that a follower must ask again.
var errRenew = errors.New("it has lasted as long as one may")

const (
	// renewals bounds the attempts of a follower to continue; renewalPause is the time between two attempts.
	renewals, renewalPause = 10, time.Second
)

// Flows asks for flows. It calls each for every flow, and missing for every node as soon as that node is missing. A follower goes on
// until ctx ends: each answer of the API ends at some time, and the next one continues where it ended. Its error says that flows
// cannot be read, or that the answer is incomplete.
func (r *Remote) Flows(
	ctx context.Context, scope FlowScope, q flows.Question, each func(api.Flow) error, missing func(api.SilentNode),
) (api.FlowStatus, error) {
	if !q.Follow {
		return r.flows(ctx, scope, q, each, missing)
	}
	began, told := time.Now(), flows.NewTold[api.Flow]()
	once := func(f api.Flow) error {
		if !told.First(unnamed(f)) {
			return nil
		}
		return each(f)
	}
	status, err := r.flows(ctx, scope, q, once, missing)
	for errors.Is(err, errRenew) {
		for range renewals {
			q.Since, q.Again = 0, min(nodeapi.MaxAgain, time.Since(began).Truncate(time.Millisecond)+time.Millisecond)
			status, err = r.flows(ctx, scope, q, once, missing)
			_, busy := errors.AsType[*BusyError](err)
			_, away := errors.AsType[*UntoldError](err)
			if !busy && !away {
				break
			}
			select {
			case <-ctx.Done():
				return status, context.Cause(ctx)
			case <-time.After(renewalPause):
			}
		}
	}
	return status, err
}

// unnamed returns a flow without the names of its ends, which may become known later.
func unnamed(f api.Flow) api.Flow {
	f.From, f.To = api.FlowEnd{Address: f.From.Address}, api.FlowEnd{Address: f.To.Address}
	return f
}

// flows asks once.
func (r *Remote) flows(
	ctx context.Context, scope FlowScope, q flows.Question, each func(api.Flow) error, missing func(api.SilentNode),
) (api.FlowStatus, error) {
	query := url.Values{}
	if q.Pod.Name != "" {
		query.Set(api.FlowPodName, q.Pod.String())
	}
	if q.Drops {
		query.Set(api.FlowDrops, "true")
	}
	if q.Since > 0 {
		query.Set(api.FlowSince, q.Since.String())
	}
	if q.Until > 0 {
		query.Set(api.FlowUntil, q.Until.String())
	}
	if q.Follow {
		query.Set(api.FlowFollow, "true")
	}
	if q.Again > 0 {
		query.Set(api.FlowAgain, q.Again.String())
	}
	// The body of a refusal is ours to read, which is why it is not client-go's request that is sent.
	client, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return api.FlowStatus{}, fmt.Errorf("make API client: %w", err)
	}
	client.Timeout = 0
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	still := time.AfterFunc(flowSilence, func() { cancel(fmt.Errorf("%s has said nothing for %s", api.GroupName, flowSilence)) })
	defer still.Stop()
	to := r.client.Discovery().RESTClient().Get().AbsPath(scope.path(query, q.Follow)).URL()
	to.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return api.FlowStatus{}, fmt.Errorf("make a request: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return api.FlowStatus{}, fmt.Errorf("ask the API server at %s: %w", r.config.Host, causeOf(ctx, err))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusMultipleChoices {
		err := unsent(answer, "tells of flows")
		if note, ok := errors.AsType[*UnsentError](err); ok {
			return api.FlowStatus{}, &UntoldError{note.Note}
		}
		return api.FlowStatus{}, err
	}
	status, err := readFlows(answer.Body, func() { still.Reset(flowSilence) }, each, missing)
	if err != nil {
		return status, causeOf(ctx, err)
	}
	return status, nil
}

// causeOf returns why a context ended, or nil if it has not.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readFlows reads an answer.
func readFlows(from io.Reader, heard func(), each func(api.Flow) error, missing func(api.SilentNode)) (api.FlowStatus, error) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, maxLine), maxRefusal)
	for scanner.Scan() {
		heard()
		var line api.FlowLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return api.FlowStatus{}, fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
		}
		switch {
		case line.End != nil:
			return *line.End, nil
		case line.Renew:
			return api.FlowStatus{}, errRenew
		case line.Error != "":
			return api.FlowStatus{}, errors.New(line.Error)
		case line.Silent != nil:
			missing(*line.Silent)
		case line.Flow != nil:
			if err := each(*line.Flow); err != nil {
				return api.FlowStatus{}, err
			}
		}
	}
	if err := scanner.Err(); err != nil {
		return api.FlowStatus{}, fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
	}
	return api.FlowStatus{}, fmt.Errorf("read the answer of %s: it is not whole", api.GroupName)
}
