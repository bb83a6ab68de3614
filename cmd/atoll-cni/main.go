// Atoll-cni is the CNI plugin: it hands each request to the node's atoll-agent and prints the answer.
package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/atoll-net/atoll/pkg/cni"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	skel.PluginMainFuncs(cni.Plugin(ctx), version.All, "CNI plugin atoll-cni")
}
