package cluster

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/test/matrix"
)

// Forge lets a pod send a frame written by hand that carries a token.
func (c *Cluster) Forge(t *testing.T, from *corev1.Pod, token string, args ...string) {
	t.Helper()
	command := append([]string{matrix.Program, "forge", "-token", token}, args...)
	if _, err := c.Exec(t.Context(), from.Namespace, from.Name, nil, command...); err != nil {
		t.Fatal(err)
	}
}

// NewToken is a word that nobody has sent yet.
func NewToken(t *testing.T) string {
	t.Helper()
	token, err := matrix.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ErrUnseen says that a pod has not recorded a token.
var ErrUnseen = errors.New("not seen")

// Saw returns ErrUnseen unless a pod has recorded a token.
func (c *Cluster) Saw(ctx context.Context, p *corev1.Pod, token string) error {
	seen, err := matrix.Seen(ctx, c.Exec, p.Namespace, p.Name, token)
	if err == nil && len(seen) == 0 {
		err = ErrUnseen
	}
	return err
}
