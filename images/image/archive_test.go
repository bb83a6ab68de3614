package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchiveOfAnIndex: the same content gives the same bytes, and what is read is what was written.
func TestArchiveOfAnIndex(t *testing.T) {
	labels := map[string]string{"org.opencontainers.image.title": "Sample", "org.opencontainers.image.version": "v1.2.3"}
	first, second := filepath.Join(t.TempDir(), "a.tar"), filepath.Join(t.TempDir(), "a.tar")
	for _, file := range []string{first, second} {
		if err := WriteArchive(file, sample(t, labels), "registry.example.com/sample:v1.2.3", "v1.2.3"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("the same content gave two different archives")
	}
	index, tag, err := ReadArchive(first, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := sample(t, labels).Digest(); err != nil || got != want || tag != "v1.2.3" {
		t.Errorf("read %s with tag %s, want %s (%v)", got, tag, want, err)
	}
	if got := platformsOf(t, index); !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms are %v", got)
	}
	manifest, err := index.IndexManifest()
	if err != nil || manifest.Annotations["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("annotations are %v (%v)", manifest.Annotations, err)
	}
}

// TestArchivesThatLie: what does not have the sum by which it is called, or would be written elsewhere, is refused.
func TestArchivesThatLie(t *testing.T) {
	good := filepath.Join(t.TempDir(), "a.tar")
	if err := WriteArchive(good, sample(t, nil), "registry.example.com/sample:v1", "v1"); err != nil {
		t.Fatal(err)
	}
	forged := func(change func(*tar.Header, []byte) []byte) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "forged.tar")
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for files := tar.NewReader(bytes.NewReader(read(t, good))); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			content = change(header, content)
			header.Size = int64(len(content))
			if err := w.WriteHeader(header); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	same := func(_ *tar.Header, content []byte) []byte { return content }
	if _, _, err := ReadArchive(forged(same), t.TempDir()); err != nil {
		t.Fatalf("an archive that was written anew is refused: %v", err)
	}
	for what, change := range map[string]func(*tar.Header, []byte) []byte{
		"another user": func(_ *tar.Header, content []byte) []byte {
			return bytes.Replace(content, []byte(`"User":"65532"`), []byte(`"User":"00000"`), 1)
		},
		"a file outside": func(header *tar.Header, content []byte) []byte {
			header.Name = strings.Replace(header.Name, "oci-layout", "../oci-layout", 1)
			return content
		},
		"a link": func(header *tar.Header, content []byte) []byte {
			if header.Name == "oci-layout" {
				header.Typeflag, header.Linkname = tar.TypeSymlink, "/etc/passwd"
				return nil
			}
			return content
		},
		"no index": func(header *tar.Header, content []byte) []byte {
			if header.Name == "index.json" {
				return []byte(`{"schemaVersion":2,"manifests":[]}`)
			}
			return content
		},
	} {
		if _, _, err := ReadArchive(forged(change), t.TempDir()); err == nil {
			t.Errorf("an archive with %s is read", what)
		}
	}
}
