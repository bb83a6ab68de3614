package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// agentADD runs the agent's own benchmark of ADD and returns its result lines. ADD is measured where it can be
// called without a container runtime.
func agentADD(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-tags=integration", "-run=^$", "-bench=ADD", "./pkg/agent")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test: %w\n%s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Benchmark") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("go test: no benchmark of ADD in ./pkg/agent\n%s", out)
	}
	return lines, nil
}
