// Command atoll is for those who run Atoll. Under the name kubectl-atoll it is a plugin of kubectl. See docs/cli.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/atoll-net/atoll/pkg/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Command(filepath.Base(os.Args[0])).ExecuteContext(ctx)
	stop()
	if err != nil && !cli.HasSaid(err) {
		fmt.Fprintln(os.Stderr, "atoll:", err)
	}
	os.Exit(cli.ExitStatus(err))
}
