package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// httpServer answers /ready for an HTTP probe of the kubelet, with the pod's identity and the client's address.
func (s *server) httpServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.ReadyPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(wire.Ready{Identity: s.identity, Client: r.RemoteAddr})
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: clientPatience, IdleTimeout: time.Minute}
}
