package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// process is a running process of a sandbox.
type process struct {
	pid int
	// first is true for the first process of a place: with it everything in the place ends.
	first   bool
	command string
}

// processesOf finds the processes of a sandbox by the mark in the environment that they were started with. The
// mark is the sandbox's name and a random part; neither a name alone nor a number of a process counts.
func processesOf(sandbox string) ([]process, error) {
	directories, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []process
	for _, dir := range directories {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !isProcessOf(sandbox, pid) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue // ended
		}
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		name, _, _ := bytes.Cut(argv, []byte{0})
		found = append(found, process{pid: pid, first: innermostPID(string(status)) == 1, command: string(name)})
	}
	return found, nil
}

// isProcessOf reads the environment of a process now.
func isProcessOf(sandbox string, pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && marked(environment, sandbox)
}

// marked tells whether an environment, as /proc shows it, has the mark of a sandbox of that name.
func marked(environment []byte, sandbox string) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if id, ok := strings.CutPrefix(string(variable), place.IDVariable+"="); ok {
			name, random, _ := strings.Cut(id, ".")
			return name == sandbox && len(random) == 2*idBytes
		}
	}
	return false
}

// innermostPID reads from a process' status file the number it has in its own pid namespace: the last field of
// NSpid (proc_pid_status(5)).
func innermostPID(status string) int {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			if len(fields) > 0 {
				pid, _ := strconv.Atoi(fields[len(fields)-1])
				return pid
			}
		}
	}
	return 0
}

// kill ends a process if it still is one of the sandbox. Between the look and the signal the process is
// held by a descriptor, so that a number that was given to another process in between is not hit.
func (p process) kill(sandbox string) {
	held, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	if isProcessOf(sandbox, p.pid) {
		_ = held.Kill() // if it has ended meanwhile, all the better
	}
	_ = held.Release() // closes the descriptor, at the worst a little later
}
