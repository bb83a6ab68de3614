package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// graceful lets requests that are under way end, as servers of users do.
type graceful struct{ *http.Server }

func (g graceful) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	return g.Shutdown(ctx)
}

// httpServer answers /ready for an HTTP probe of the kubelet, with the pod's identity and the client's address.
func (s *server) httpServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.ReadyPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(wire.Ready{Identity: s.identity, Client: r.RemoteAddr})
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: clientPatience, IdleTimeout: time.Minute}
}
