package certs

import (
	"context"
	"fmt"
	"slices"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstReadEvery is how often the central authority is looked for by whoever follows it, until there is one.
const firstReadEvery = 2 * time.Second

// Follow reads the central authority until ctx ends, and writes nothing: for atoll-controller --clean, which asks databases and
// does not lead. It lasts through whatever goes wrong.
func (s *Signer) Follow(ctx context.Context) {
	for {
		wait := rereadEvery
		if err := s.see(ctx); err != nil {
			// While it is not there nobody leads, who says it.
			s.config.Log.Debug("the central authority cannot be read", "error", err)
			wait = firstReadEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *Signer) see(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.config.Client.CoreV1().Secrets(Namespace).Get(ctx, Central.Secret(), meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read authority %s: %w", Central, err)
	}
	authority, err := decodeAuthority(secret.Data[secretCertificates], secret.Data[secretKeys])
	if err != nil {
		return fmt.Errorf("read authority %s: %w", Central, err)
	}
	s.seen.Store(&authority)
	return nil
}

// InspectBundle is what verifies atoll-inspect for the API server, in PEM; nil while it is not known. The central authority is in
// it because controllers of the version before answer by its certificates until the upgrade is over. The leader cannot tell when
// that is, and who goes back to that version needs it again: so it stays in the bundle in all of this version, and goes in the
// next. Meanwhile it lets in nobody else: it signs no server certificate with the names of the Service any more.
func (s *Signer) InspectBundle() []byte {
	all := s.authorities.Load()
	if all == nil {
		return nil
	}
	return slices.Concat((*all)[Agent].Bundle(), (*all)[Central].Bundle())
}
