package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// blind is the cleaner of a control: it removes nothing.
type blind struct{}

func (blind) object(map[string]any) {}
func (blind) text(s string) string  { return s }
func options(t *testing.T, url string) Options {
	return Options{Kubeconfig: kubeconfigOf(t, url), Namespace: "atoll-system", Version: "v0", Now: time.Unix(1000, 0), Databases: true, Note: func(string) {}}
}

// unpack are the files of an archive, by their names below its directory.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(zipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		dir, name, _ := strings.Cut(header.Name, "/")
		if err != nil || header.Mode != 0o600 || !strings.HasPrefix(dir, "atoll-bundle-") || path.Clean(header.Name) != header.Name {
			t.Errorf("%s has mode %o: %v", header.Name, header.Mode, err)
		}
		out[name] = string(text)
	}
}

func bundled(t *testing.T, p *planted, clean cleaner) (map[string]string, Manifest) {
	t.Helper()
	var out bytes.Buffer
	manifest, err := write(t.Context(), options(t, p.URL), &out, clean)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	var written Manifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &written); err != nil || len(written.Files) != len(manifest.Files) || len(written.Files) != len(files)-1 {
		t.Errorf("the manifest has %d files, and there are %d: %v", len(written.Files), len(files), err)
	}
	for _, f := range written.Files {
		if text, there := files[f.Name]; !there || len(text) != f.Bytes {
			t.Errorf("of %s there are %d bytes, the manifest says %+v", f.Name, len(text), f)
		}
	}
	return files, written
}

// TestNoSecretGetsOut plants a secret in each place where people put them, in every kind of object, answer, log and row, and looks for each in the archive. The control: with nothing
// removed, each of them is there.
func TestNoSecretGetsOut(t *testing.T) {
	t.Parallel()
	p := newPlanted(t)
	if len(p.secrets) < 200 {
		t.Fatalf("only %d secrets are planted", len(p.secrets))
	}
	clean, _ := bundled(t, p, remover{})
	raw, _ := bundled(t, p, blind{})
	for where, secret := range p.secrets {
		for name, text := range clean {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s is in %s", where, secret, name)
			}
		}
		if !elsewhere(where) && !slices.ContainsFunc(values(raw), func(text string) bool { return strings.Contains(text, secret) }) {
			t.Errorf("control: %s: %s would not have got in anyway", where, secret)
		}
	}
	// What is worth reading is still there.
	for name, want := range map[string]string{
		"objects/networks.yaml": "10.0.0.7", "objects/atoll-pods.yaml": "kept-name", "logs/atoll-agent-x/agent.log": "it ends", "logs/atoll-agent-x/agent.previous.log": "before the restart",
		"databases/northbound/Logical_Switch.json": `"red/front"`, "databases/southbound/Logical_Switch.json": "requested-chassis", "version.txt": "v1.36.2", "answers/status.yaml": "status",
		"objects/events.yaml": "one.1", "objects/services.yaml": "--listen=:80", "answers/network-details.yaml": "one",
	} {
		if !strings.Contains(clean[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, clean[name])
		}
	}
	if strings.Contains(clean["objects/events.yaml"], "somebody-elses-event") {
		t.Error("an Event of somebody else is there")
	}
	for _, asked := range p.asked {
		if strings.Contains(asked, "secrets") || strings.Contains(asked, "configmaps") {
			t.Errorf("%s is read", asked)
		}
	}
}

// elsewhere reports whether a secret is where nobody reads: in somebody else's Event, in what is listed only for want of other rights, or where a Pod has no such field.
func elsewhere(where string) bool {
	kind, place, _ := strings.Cut(where, ": ")
	noField := []string{"data", "a key", "a list", "a private key", "an encoded key", "a header in words", "a URL", "a web token"}
	return kind == "Foreign" || strings.HasSuffix(kind, " of one") || kind == "Pod" && slices.Contains(noField, place)
}

func values(files map[string]string) (out []string) {
	for _, text := range files {
		out = append(out, text)
	}
	return out
}

// TestABundleOfWhatOneMayRead: who may read some namespaces alone gets what is there, and is told what is missing and why.
func TestABundleOfWhatOneMayRead(t *testing.T) {
	t.Parallel()
	p := newPlanted(t)
	p.forbidden = []string{
		"/apis/inspect.atoll.dev/v1alpha1/clusters", "/apis/inspect.atoll.dev/v1alpha1/pods", "/apis/inspect.atoll.dev/v1alpha1/databases", "/api/v1/namespaces/atoll-system", "/api/v1/events",
		"/api/v1/nodes", "/apis/atoll.dev/v1alpha1/tenants", "/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/services",
	}
	files, manifest := bundled(t, p, remover{})
	for _, want := range []string{"is Atoll well", "pods in Networks of all namespaces", "Atoll's pods, and their logs", "Events of Atoll's of all namespaces", "nodes", "Tenants", "NetworkPolicies of all namespaces", "dump of OVN's northbound database", "dump of OVN's southbound database"} {
		if !slices.ContainsFunc(manifest.Missing, func(m Missing) bool {
			return strings.HasPrefix(m.What, want) && strings.Contains(m.Why, "forbidden")
		}) {
			t.Errorf("that %s are missing is not said: %+v", want, manifest.Missing)
		}
	}
	for name, want := range map[string]string{"answers/pods.yaml": "mine", "objects/networkpolicies.yaml": "two", "objects/networks.yaml": "one", "objects/events.yaml": "one.1"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %s: %s", name, want, files[name])
		}
	}
}

// TestCuts: what is too large is cut, and that is said.
func TestCuts(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	text, dropped, err := tail(strings.NewReader(strings.Repeat(line, 50000)+"the end\n"), maxLog)
	if err != nil || !dropped || len(text) > maxLog || !strings.HasPrefix(string(text), "xxx") || !strings.HasSuffix(string(text), "the end\n") || len(text)%100 != 8 {
		t.Errorf("%d bytes, %t, %v", len(text), dropped, err)
	}
	if text, dropped, err := tail(strings.NewReader(line), maxLog); err != nil || dropped || string(text) != line {
		t.Errorf("a short one: %d bytes, %t, %v", len(text), dropped, err)
	}
	a := &archive{clean: remover{}, texts: map[string][]byte{}, size: maxArchive - 10}
	a.add(File{Name: "a"}, make([]byte, 11))
	a.add(File{Name: "b"}, []byte("more"))
	if f := a.manifest.Files; f[0].Bytes != 10 || f[0].Cut == "" || f[1].Bytes != 0 || f[1].Cut == "" {
		t.Errorf("%+v", f)
	}
	a = &archive{clean: remover{}, texts: map[string][]byte{}}
	a.objects(File{Name: "o"}, slices.Repeat([]any{map[string]any{"a": "b"}}, maxObjects+1))
	if f := a.manifest.Files[0]; f.Items != maxObjects+1 || f.Cut == "" || strings.Count(string(a.texts["o"]), "a: b") != maxObjects {
		t.Errorf("%+v", f)
	}
}

// TestWhatIsNoSecretStays: texts that a report needs.
func TestWhatIsNoSecretStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"pod red/web-0 is dialled as 10.0.0.2, its own address", "2026-01-01T00:00:00.000000Z level=INFO msg=\"rows are written\" rows=12 took=3ms",
		"ovsdb-server (backtrace.c): tls connection from ssl:192.0.2.1:6641", "image: registry.example.com/atoll@sha256:0123456789abcdef", "secrets is forbidden: User \"jo\" cannot list resource",
	} {
		if got := (remover{}).text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
