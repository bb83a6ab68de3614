package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

// ErrNoUpgrade is the error of a stream whose request was answered, with neither an upgrade nor a Status.
var ErrNoUpgrade = errors.New("it is not upgraded to a stream")

// DialStream opens a stream of bytes to a path of the API server, by an upgrade to websocket, as kubectl does for its exec. Its
// error is a StatusError if somebody answered with one.
func DialStream(ctx context.Context, cfg *rest.Config, path string, query url.Values, protocol string) (net.Conn, error) {
	where, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	where = where.JoinPath(path)
	where.RawQuery = query.Encode()
	trip, holder, err := websocket.RoundTripperFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	conn, err := websocket.Negotiate(trip, holder, request, protocol)
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		if status, answered := errors.AsType[*apierrors.StatusError](failed.Cause); answered {
			return nil, status
		}
		// The API server has no Status for it where nobody serves the path; nor has a proxy before it.
		return nil, fmt.Errorf("%w: %w", ErrNoUpgrade, failed.Cause)
	}
	if err != nil {
		return nil, err
	}
	return portforward.NewTunnelingConnection("stream", conn), nil
}
