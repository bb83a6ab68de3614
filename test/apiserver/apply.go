package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/gatewayapi"
)

// Kubectl runs kubectl as the administrator and returns what it printed on its standard output.
func (s *Server) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.kubectl, append([]string{"--kubeconfig=" + s.Kubeconfig()}, args...)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, failure.Bytes())
	}
	return out, nil
}

// Apply applies the kustomization in dir, as its user would. Objects of a kind that the same kustomization defines cannot be
// applied with it (kubectl looks up all kinds first), so that whoever has such applies the definitions before. An API server that
// has just got an admission policy refuses what the policy is about until it has read the policy's parameters: then it is applied
// again, as its user would.
func (s *Server) Apply(ctx context.Context, dir string) error {
	limit := time.After(syncWithin)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.Kubectl(ctx, "apply", "--server-side", "-k", dir)
		if err == nil || !strings.Contains(err.Error(), "not yet synced to use for admission") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-limit:
			return err
		case <-tick.C:
		}
	}
}

// syncWithin is how long an API server may take to read what its admission policies look at.
const syncWithin = time.Minute

// Establish applies the CustomResourceDefinitions in dir and waits until the server serves them.
func (s *Server) Establish(ctx context.Context, dir string) error {
	if err := s.Apply(ctx, dir); err != nil {
		return err
	}
	_, err := s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "app.kubernetes.io/part-of=atoll")
	return err
}

// EstablishGatewayAPI gives the server the kinds of Gateway API.
func (s *Server) EstablishGatewayAPI(ctx context.Context) error {
	dir, err := gatewayapi.Definitions(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Kubectl(ctx, "apply", "--server-side", "-f", dir); err != nil {
		return err
	}
	_, err = s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", dir+"/gateway.networking.k8s.io_gateways.yaml",
		"-f", dir+"/gateway.networking.k8s.io_gatewayclasses.yaml", "-f", dir+"/gateway.networking.k8s.io_referencegrants.yaml",
		"-f", dir+"/gateway.networking.k8s.io_tcproutes.yaml", "-f", dir+"/gateway.networking.k8s.io_udproutes.yaml")
	return err
}

// Start runs an API server for the length of a test, which it fails if it cannot.
func Start(t testing.TB) *Server {
	t.Helper()
	// The test's own context ends before its clean-up, which may still need the server.
	s, err := Run(context.WithoutCancel(t.Context()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the API server's log:\n%s", s.api.logTail())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
