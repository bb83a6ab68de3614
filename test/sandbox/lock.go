package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// lockPath is outside the state directory: it guards the sandbox's name on the machine, whatever the directory.
func lockPath(name string) string { return "/run/atoll-sandbox-" + name + ".lock" }

// lockPatience is how long a lock may be held by nobody: a process that up had just begun when it was killed has the lock until it
// is the program that it is to become.
const lockPatience = 3 * time.Second

// lock keeps a second up or down away until unlock is called.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockPatience, fmt.Errorf("another up or down of sandbox %s is at work", name))
	defer cancel()
	return parts.Lock(ctx, lockPath(name))
}
