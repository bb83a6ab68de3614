// Command atoll is for those who run Atoll. Under the name kubectl-atoll it is a plugin of kubectl. See docs/cli.md.
package main

import (
	"os"

	"github.com/atoll-net/atoll/pkg/cli"
)

func main() { os.Exit(cli.Main(os.Args[0])) }
