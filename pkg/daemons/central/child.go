package central

import (
	"os"
	"os/exec"

	"github.com/atoll-net/atoll/pkg/process/child"
	"github.com/atoll-net/atoll/pkg/process/rlimit"
)

// startChild starts a daemon. Its log is ours.
func startChild(path string, environment []string, args ...string) (*child.Child, error) {
	// A database's server takes one open file for each client, and it needs some for raft and for its files.
	rlimit.RaiseFiles()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return child.Start(cmd)
}
