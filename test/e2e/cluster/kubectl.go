package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Kubectl runs kubectl as the administrator.
func (c *Cluster) Kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := c.Program(t.Context(), append([]string{"kubectl"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// Apply applies manifests.
func (c *Cluster) Apply(t *testing.T, manifests string) {
	t.Helper()
	cmd := c.Program(t.Context(), "kubectl", "apply", "--server-side", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
}

// Read reads an object.
func (c *Cluster) Read(ctx context.Context, into any, what ...string) error {
	cmd := c.Program(ctx, append(append([]string{"kubectl", "get"}, what...), "-o", "json")...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("read %v: %w: %s", what, err, failure.Bytes())
	}
	return json.Unmarshal(out, into)
}
