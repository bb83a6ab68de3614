package image

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// newRegistry serves a registry in memory on loopback, behind a handler, and returns its address.
func newRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(wrap(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func open(h http.Handler) http.Handler { return h }

// TestPush: what is pulled is what was pushed, with both platforms.
func TestPush(t *testing.T) {
	index := sample(t, map[string]string{"a": "b"})
	reference := newRegistry(t, open) + "/atoll/sample:v1"
	if err := Push(t.Context(), reference, index); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Errorf("pulled %s, pushed %s (%v)", got, want, err)
	}
	if got := platformsOf(t, pulled); !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms are %v", got)
	}
}

// TestPushWithCredentials: those of docker's configuration are used, and without the right ones an error says what to do.
func TestPushWithCredentials(t *testing.T) {
	for what, c := range map[string]struct {
		password string
		status   int
		want     string
	}{
		"right":     {"secret", 0, ""},
		"wrong":     {"guess", 0, "docker login"},
		"none":      {"", 0, "docker login"},
		"forbidden": {"secret", http.StatusForbidden, "does not let them push"},
	} {
		t.Run(what, func(t *testing.T) {
			address := newRegistry(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					user, password, _ := r.BasicAuth()
					switch {
					case user != "robot" || password != "secret":
						w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
						http.Error(w, "who are you?", http.StatusUnauthorized)
					case c.status != 0 && r.Method != http.MethodGet:
						http.Error(w, "no", c.status)
					default:
						h.ServeHTTP(w, r)
					}
				})
			})
			t.Setenv("DOCKER_CONFIG", t.TempDir())
			t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
			t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
			if c.password != "" {
				text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address, base64.StdEncoding.EncodeToString([]byte("robot:"+c.password)))
				if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := Push(t.Context(), address+"/sample:v1", sample(t, nil))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestPushElsewhere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close() // nobody listens there any more
	for reference, want := range map[string]string{
		strings.TrimPrefix(server.URL, "http://") + "/sample:v1": "cannot be reached",
		"registry.invalid/Sample:v1":                             "could not parse reference",
		"registry.invalid/sample":                                "could not parse reference",
	} {
		if err := Push(t.Context(), reference, sample(t, nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reference, err, want)
		}
	}
}
