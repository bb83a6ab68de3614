package sandbox

import (
	"fmt"
	"os"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Leftovers lists everything of the sandbox that exists on the machine outside the cache, a line each: what
// Down makes empty. It needs neither the state directory nor a record in it.
func Leftovers(opts Options) ([]string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	var lines []string
	processes, err := processesOf(opts.Name)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		lines = append(lines, fmt.Sprintf("process %d %s", p.pid, p.command))
	}
	namespaces, err := namespacesOf(opts.Name)
	if err != nil {
		return nil, err
	}
	for _, name := range namespaces {
		lines = append(lines, "network namespace "+name)
	}
	mounts, err := place.MountsBelow(opts.State)
	if err != nil {
		return nil, err
	}
	for _, point := range mounts {
		lines = append(lines, "mount "+point)
	}
	groups, err := cgroupsOf(opts.Name)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		lines = append(lines, "cgroup "+group)
	}
	for _, path := range []string{opts.State, lockPath(opts.Name)} {
		if _, err := os.Lstat(path); err == nil {
			lines = append(lines, "file "+path)
		}
	}
	return lines, nil
}
