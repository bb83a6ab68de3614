package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// grpcServer answers a gRPC probe of the kubelet: it serves (the protocol is grpc.health.v1).
func grpcServer() *grpc.Server {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server
}

// stopper is a gRPC server as something that can be closed.
type stopper struct{ server *grpc.Server }

func (s stopper) Close() error {
	s.server.Stop()
	return nil
}
