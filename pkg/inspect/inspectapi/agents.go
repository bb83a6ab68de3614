package inspectapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// Agents ask the agent of a node, which is that of a pod but for Connect. Their errors are those of nodeapi.Client: an
// UnreachableError, a RefusedError, or that the answer is not whole.
type Agents struct {
	// Ping has packets sent from a pod.
	Ping askPing
	// Capture has packets of a pod taken.
	Capture askCapture
	// Observe has a node watch for marked packets.
	Observe askObserve
	// Connect opens a socket of a node; what goes through, the agent's gate judges.
	Connect askConnect
}

type (
	askPing    = func(ctx context.Context, on snapshot.Sender, q nodeapi.Question, each func(ping.Reply) error) error
	askObserve = func(ctx context.Context, on snapshot.Sender, q nodeapi.ObserveQuestion, each func(nodeapi.ObserveLine) error) error
	askCapture = func(ctx context.Context, on snapshot.Sender, q nodeapi.CaptureQuestion, each func(nodeapi.CaptureLine) error) error
	askConnect = func(ctx context.Context, on snapshot.Sender, q nodeapi.ConnectQuestion) (net.Conn, error)
)

// AgentsBy asks them with the certificate of atoll-inspect that certs.Keep has put into a directory.
func AgentsBy(dir string) Agents {
	client := func(on snapshot.Sender) nodeapi.Client {
		return nodeapi.Client{Node: on.Node, Addresses: on.Addresses, TLS: certs.AgentClient(dir, on.Node)}
	}
	return Agents{
		Ping: func(ctx context.Context, on snapshot.Sender, q nodeapi.Question, each func(ping.Reply) error) error {
			return client(on).Ping(ctx, q, each)
		},
		Capture: func(ctx context.Context, on snapshot.Sender, q nodeapi.CaptureQuestion, each func(nodeapi.CaptureLine) error) error {
			return client(on).Capture(ctx, q, each)
		},
		Observe: func(ctx context.Context, on snapshot.Sender, q nodeapi.ObserveQuestion, each func(nodeapi.ObserveLine) error) error {
			return client(on).Observe(ctx, q, each)
		},
		Connect: func(ctx context.Context, on snapshot.Sender, q nodeapi.ConnectQuestion) (net.Conn, error) {
			return client(on).Connect(ctx, q)
		},
	}
}

// mayCreate is an error unless somebody may create a subresource of a pod.
func (h *handler) mayCreate(ctx context.Context, who access.User, subresource string, pod model.PodKey) error {
	what := attributes{verb: "create", resource: api.ResourcePods, subresource: subresource, namespace: pod.Namespace, name: pod.Name}
	allowed, err := h.authz.may(ctx, who, what)
	switch {
	case err != nil:
		return apierrors.NewServiceUnavailable(err.Error())
	case !allowed:
		return forbidden(who, what)
	}
	return nil
}

// readQuestion reads what is asked.
func readQuestion(text []byte, in any) error {
	if err := json.Unmarshal(text, in); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("read the question: %v", err))
	}
	return nil
}

// lines write lines of an answer, each at once. An error is that the reader has gone, or does not read.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (l *lines) write(line any) error {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/json")
	}
	if err := l.control.SetWriteDeadline(time.Now().Add(reviewTime)); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if err := json.NewEncoder(l.w).Encode(line); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if err := l.control.Flush(); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}
