package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Push writes an index and its images into a registry under a reference. It takes credentials from where `docker login` keeps
// them ($DOCKER_CONFIG/config.json, ~/.docker/config.json, and podman's file). It does not use TLS for a registry on this
// machine's loopback interface.
func Push(ctx context.Context, reference string, index v1.ImageIndex) error {
	ref, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("push %s: %w", reference, err)
	}
	err = remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("atoll-images"))
	if err != nil {
		return fmt.Errorf("push %s: %w", reference, explained(err, ref.Context().RegistryStr()))
	}
	return nil
}

// explained says what an error means where a person can do something about it.
func explained(err error, registry string) error {
	if refused, ok := errors.AsType[*transport.Error](err); ok {
		switch refused.StatusCode {
		case http.StatusUnauthorized:
			return fmt.Errorf("%s refuses the credentials that docker's configuration has for it, or wants some: docker login %s writes them: %w",
				registry, registry, err)
		case http.StatusForbidden:
			return fmt.Errorf("%s knows these credentials, and does not let them push there: %w", registry, err)
		}
		return err
	}
	var wire *net.OpError
	var lookup *net.DNSError
	var asked *url.Error
	if errors.As(err, &wire) || errors.As(err, &lookup) || errors.As(err, &asked) && asked.Timeout() {
		return fmt.Errorf("%s cannot be reached: %w", registry, err)
	}
	return err
}
