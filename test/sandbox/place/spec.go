// Package place runs one place of the sandbox: the control plane or a node, as a set of namespaces that ends as
// a whole when its first process ends.
//
// In flows a Spec, written to a file by whoever makes the sandbox. Launch starts the first process of the place
// in the place's network namespace with mount, pid, uts and ipc namespaces of its own; that process calls Init,
// which makes the private mounts, starts the daemons in order and keeps them running, as systemd would on a
// real machine. Out flow log files, one per daemon, and answers on a control socket (see Client).
//
// What must stay true: nothing that happens in a place is visible in the machine's own mounts, host name or
// network; and whatever runs in a place is a descendant of its first process, so that killing that one process
// ends everything.
package place

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// IDVariable is the environment variable that marks the first process of each place, and so its daemons, with
// the identity of their sandbox. It is how a process is recognised as ours when nothing else is left.
const IDVariable = "ATOLL_SANDBOX_ID"

// Spec describes a place completely.
type Spec struct {
	// ID is the sandbox's identity, the value of IDVariable.
	ID string `json:"id"`
	// Name is the place's name and its host name.
	Name string `json:"name"`
	// State is the sandbox's state directory, which stays visible in the place under the same path.
	State string `json:"state"`
	// Control is the path of the control socket, below State.
	Control string `json:"control"`
	// Logs is the directory of the daemons' logs, below State.
	Logs string `json:"logs"`
	// Cgroup is the directory of the cgroup that all processes of the place are in.
	Cgroup string `json:"cgroup"`
	// Overlays are directories of the machine that the place sees but changes only for itself.
	Overlays []string `json:"overlays"`
	// Directories are made on the place's own /run.
	Directories []string `json:"directories"`
	// Binds put directories of the state where programs look for them.
	Binds []Bind `json:"binds"`
	// Kernel holds values for files below /proc/sys that are the whole machine's: the place gets files of its own
	// in their stead, so that a kubelet may write them without effect.
	Kernel map[string]string `json:"kernel"`
	// Settings are values for files below /proc/sys that are the place's own, as sysctl.d(5) would set them.
	Settings map[string]string `json:"settings,omitempty"`
	// Files are written into the place's own view of the machine's files, by path.
	Files map[string]string `json:"files,omitempty"`
	// Environment is what the daemons get beside IDVariable.
	Environment []string `json:"environment"`
	// Daemons in the order in which they are shown; After decides the order of starting.
	Daemons []DaemonSpec `json:"daemons"`
}

// Bind makes the directory Source visible at Target.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// DaemonSpec describes one daemon.
type DaemonSpec struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	// After names daemons that have to be ready before the first start of this one.
	After []string `json:"after,omitempty"`
	// Ready tells when the daemon serves.
	Ready Check `json:"ready"`
	// Held daemons are started on request only.
	Held bool `json:"held,omitempty"`
}

// Check is a condition on a daemon; the one field that is set counts. The zero Check is always true.
type Check struct {
	// Socket is a unix socket that accepts connections.
	Socket string `json:"socket,omitempty"`
	// URL answers 200. A server's certificate is not verified: the check carries no secret.
	URL string `json:"url,omitempty"`
}

// Daemon is the state of one supervised daemon.
type Daemon struct {
	Name string `json:"name"`
	// PID is 0 while the daemon is down. The control socket tells it as the place's own pid namespace
	// counts; the sandbox package translates it into the machine's.
	PID int `json:"pid"`
	// Restarts counts the starts after the first.
	Restarts int `json:"restarts"`
	// Since is when the present process was started.
	Since time.Time `json:"since"`
	// Ready is true once the present process has passed its check and its settling commands have run.
	Ready bool `json:"ready"`
	// Held is true while the daemon is down on purpose.
	Held bool `json:"held"`
	// Problem is why the daemon is not ready, as far as its supervisor knows.
	Problem string `json:"problem,omitempty"`
}

// Write stores the spec in a file for the first process of the place to read.
func (s Spec) Write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode place %s: %w", s.Name, err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write place %s: %w", s.Name, err)
	}
	return nil
}

func readSpec(path string) (Spec, error) {
	var spec Spec
	data, err := os.ReadFile(path)
	if err != nil {
		return spec, fmt.Errorf("read place: %w", err)
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return spec, fmt.Errorf("decode place %s: %w", path, err)
	}
	return spec, nil
}
