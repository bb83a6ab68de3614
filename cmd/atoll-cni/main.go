// Atoll-cni is the CNI plugin: it hands each request to the node's atoll-agent and prints the answer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/process/build"
)

func main() {
	// Which the specification leaves to each plugin: a runtime calls it without arguments.
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("atoll-cni version", build.Version())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	skel.PluginMainFuncs(cni.Plugin(ctx), version.All, "CNI plugin atoll-cni "+build.Version())
}
