package cni

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// Backend does the work of the agent. Each method may be called again with the same request and from
// several goroutines; its context ends when the plugin's process does. An error that wraps a types.Error
// keeps its code.
type Backend interface {
	Add(context.Context, Request) (*current.Result, error)
	Del(context.Context, Request) error
	Check(context.Context, Request) error
	GC(context.Context, Request) error
	Status(context.Context) error
}

// Handler serves requests of the plugin from a Backend.
func Handler(backend Backend, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		// The whole body is read first: only then does net/http notice that the plugin has gone.
		request := Request{}
		response := Response{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
			response.Error = types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read request: %v", err), "")
		} else {
			response = serve(r.Context(), backend, request)
		}
		if response.Error != nil && request.Command != Status {
			log.Warn("CNI request failed", "command", request.Command, "pod", request.Pod.Key(),
				"container", request.ContainerID, "error", response.Error)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(response); err != nil {
			log.Warn("CNI answer not delivered", "command", request.Command, "pod", request.Pod.Key(), "error", err)
		}
	})
	return mux
}

func serve(ctx context.Context, backend Backend, request Request) Response {
	if err := request.Validate(); err != nil {
		return Response{Error: toError(err)}
	}
	response := Response{}
	var err error
	switch request.Command {
	case Add:
		response.Result, err = backend.Add(ctx, request)
	case Del:
		err = backend.Del(ctx, request)
	case Check:
		err = backend.Check(ctx, request)
	case GC:
		err = backend.GC(ctx, request)
	case Status:
		err = backend.Status(ctx)
	}
	response.Error = toError(err)
	return response
}
