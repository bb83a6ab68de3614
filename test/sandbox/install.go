package sandbox

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/process/progress"
)

// installLimit is how long atoll install may take: members of the databases join one after another.
const installLimit = 5 * time.Minute

// install runs the same command as a user does, with a kustomization that has the sandbox's addresses. What the command
// prints becomes notes of the running step.
func (u *starter) install(ctx context.Context, steps *progress.Steps) error {
	overlay := "sandbox"
	if u.record.Options.Overlay == OverlaySingle {
		overlay = "sandbox-single"
	}
	cmd, err := u.Command(ctx, Central, filepath.Join(u.record.Options.Bin, "atoll"), "install",
		"-k", filepath.Join(u.record.Options.Source, "dist/overlays", overlay),
		"--kubeconfig", u.Kubeconfig(), "--timeout", installLimit.String())
	if err != nil {
		return err
	}
	var printed strings.Builder
	lines := &notes{steps: steps}
	cmd.Stdout = io.MultiWriter(&printed, lines)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run atoll install: %w\n%s", err, strings.TrimSpace(printed.String()))
	}
	return nil
}

// notes makes a note of each line that is written.
type notes struct {
	steps *progress.Steps
	begun string
}

// Write keeps what has no line's end yet.
func (n *notes) Write(b []byte) (int, error) {
	lines := strings.Split(n.begun+string(b), "\n")
	n.begun = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		if line = strings.TrimSpace(line); line != "" {
			n.steps.Note("%s", line)
		}
	}
	return len(b), nil
}
