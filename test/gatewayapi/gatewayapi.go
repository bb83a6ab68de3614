// Package gatewayapi finds the definitions of Gateway API that are published with its Go module, in the version that this
// module requires: what a cluster's administrator installs.
package gatewayapi

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is the path of the Go module.
const Module = "sigs.k8s.io/gateway-api"

// Definitions is a directory of manifests: the CustomResourceDefinitions of the standard channel. The module's files are
// there when anything has been built that imports it.
func Definitions(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", Module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", Module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "standard"), nil
}
