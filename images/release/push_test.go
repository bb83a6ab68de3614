package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestPush: what was built is what a registry has under each tag, with its platforms.
func TestPush(t *testing.T) {
	b := smallBuilder(t, smallSource(t))
	digests := map[string]string{}
	for _, r := range b.list.Images {
		done, err := b.build(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		digests[r.Name] = done.digest
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	place := strings.TrimPrefix(server.URL, "http://") + "/team"
	var out bytes.Buffer
	if err := run(t.Context(), []string{"push", "-registry=" + place + "/", "-out=" + b.out, "-tags=latest,stable"}, &out,
		io.Discard); err != nil {
		t.Fatal(err)
	}
	for image, platforms := range map[string]int{"small": 2, "bare": 1} {
		for _, tag := range []string{"v1.2.3", "latest", "stable"} {
			reference := place + "/" + image + ":" + tag
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
			manifest, err := pulled.IndexManifest()
			if err != nil {
				t.Fatal(err)
			}
			digest, err := pulled.Digest()
			if err != nil || digest.String() != digests[image] || len(manifest.Manifests) != platforms {
				t.Errorf("%s is %s of %d platforms, want %s of %d (%v)", reference, digest, len(manifest.Manifests), digests[image], platforms, err)
			}
			if !strings.Contains(out.String(), reference) || !strings.Contains(out.String(), digests[image]) {
				t.Errorf("%s is not told of:\n%s", reference, out.String())
			}
		}
	}
}

// TestWhatPushAsks: who forgets something reads what.
func TestWhatPushAsks(t *testing.T) {
	empty := t.TempDir()
	b := smallBuilder(t, smallSource(t))
	if _, err := b.build(t.Context(), b.list.Images[1]); err != nil {
		t.Fatal(err)
	}
	nobody := httptest.NewServer(nil)
	nobody.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"push", "-out=" + b.out}, "make push REGISTRY="},
		{[]string{"push", "-out=" + empty, "-registry=registry.example.com"}, "make images builds them"},
		{[]string{"push", "-out=" + b.out, "-registry=" + strings.TrimPrefix(nobody.URL, "http://")}, "cannot be reached"},
		{[]string{"push", "-out=" + b.out, "-registry=not a name"}, "could not parse reference"},
		{[]string{"pull"}, "build, source and push"},
		{nil, "build, source and push"},
	} {
		err := run(t.Context(), c.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(b.out, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
