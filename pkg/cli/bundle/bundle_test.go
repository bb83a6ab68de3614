package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// blind is the cleaner of a control: it removes nothing.
type blind struct{}

func (blind) object(map[string]any) {}
func (blind) text(s string) string  { return s }
func options(t *testing.T, url string) Options {
	return Options{
		Kubeconfig: kubeconfigOf(t, url), Namespace: "atoll-system", Version: "v0", Now: time.Unix(1000, 0), Databases: true,
		Note: func(string) {},
	}
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
	if err := json.Unmarshal([]byte(files["manifest.json"]), &written); err != nil || len(written.Files) != len(manifest.Files) ||
		len(written.Files) != len(files)-1 {
		t.Errorf("the manifest has %d files, and there are %d: %v", len(written.Files), len(files), err)
	}
	for _, f := range written.Files {
		if text, there := files[f.Name]; !there || len(text) != f.Bytes {
			t.Errorf("of %s there are %d bytes, the manifest says %+v", f.Name, len(text), f)
		}
	}
	return files, written
}

// TestNoSecretGetsOut plants a secret in each place where people put them, in every kind of object, answer, log and row, and
// looks for each in the archive. The control: with nothing removed, each of them is there.
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
		"objects/networks.yaml": "10.0.0.7", "objects/atoll-pods.yaml": "kept-name", "logs/atoll-agent-x/agent.log": "it ends",
		"logs/atoll-agent-x/agent.previous.log":    "before the restart",
		"databases/northbound/Logical_Switch.json": `"red/front"`, "databases/southbound/Logical_Switch.json": "requested-chassis",
		"version.txt": "v1.36.2", "answers/status.yaml": "status",
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

// elsewhere reports whether a secret is where nobody reads: in somebody else's Event, in what is listed only for want of other
// rights, or where a Pod has no such field.
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
		"/apis/inspect.atoll.dev/v1alpha1/clusters", "/apis/inspect.atoll.dev/v1alpha1/pods", "/apis/inspect.atoll.dev/v1alpha1/databases",
		"/api/v1/namespaces/atoll-system", "/api/v1/events",
		"/api/v1/nodes", "/apis/atoll.dev/v1alpha1/tenants", "/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/services",
	}
	files, manifest := bundled(t, p, remover{})
	for _, want := range []string{
		"is Atoll well", "pods in Networks of all namespaces", "Atoll's pods, and their logs", "Events of Atoll's of all namespaces", "nodes",
		"Tenants", "NetworkPolicies of all namespaces", "dump of OVN's northbound database", "dump of OVN's southbound database",
	} {
		if !slices.ContainsFunc(manifest.Missing, func(m Missing) bool {
			return strings.HasPrefix(m.What, want) && strings.Contains(m.Why, "forbidden")
		}) {
			t.Errorf("that %s are missing is not said: %+v", want, manifest.Missing)
		}
	}
	for name, want := range map[string]string{
		"answers/pods.yaml": "mine", "objects/networkpolicies.yaml": "two", "objects/networks.yaml": "one", "objects/events.yaml": "one.1",
	} {
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
	if err != nil || !dropped || len(text) > maxLog || !strings.HasPrefix(string(text), "xxx") ||
		!strings.HasSuffix(string(text), "the end\n") || len(text)%100 != 8 {
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
		"pod red/web-0 is dialled as 10.0.0.2, its own address",
		"2026-01-01T00:00:00.000000Z level=INFO msg=\"rows are written\" rows=12 took=3ms",
		"ovsdb-server (backtrace.c): tls connection from ssl:192.0.2.1:6641", "image: registry.example.com/atoll@sha256:0123456789abcdef",
		"secrets is forbidden: User \"jo\" cannot list resource",
	} {
		if got := (remover{}).text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestSecretsInTexts: of each text nothing is left of what stands for a secret in it. PLANTED and DETNALP are its ends.
func TestSecretsInTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, remains string }{
		{"password=PLANTED/p@ss\"w'ord with spaces,;&DETNALP", "password=(removed)"},
		{"a\npassword: PLANTED is a phraseDETNALP\nb", "a\npassword: (removed)\nb"},
		{"level=INFO password=PLANTED/DETNALP rows=12", "level=INFO password=(removed) rows=12"},
		{`{"a":"b","password":"PLANTED\"/@ DETNALP","c":"d"}`, `{"a":"b","password":(removed),"c":"d"}`},
		{`msg="{\"password\":\"PLANTED @/ DETNALP\",\"c\":1}"`, `msg="{\"password\":(removed),\"c\":1}"`},
		{`password='PLANTED it'\''s DETNALP' rows=1`, `password=(removed) rows=1`},
		{`password="PLANTED "" DETNALP", b`, `password=(removed), b`},
		{"run --password 'PLANTED with DETNALP' --verbose", "run --password (removed) --verbose"},
		{"run --db.password PLANTED'/@DETNALP --verbose", "run --db.password (removed) --verbose"},
		{"run --token-stdin --verbose", "run --token-stdin --verbose"},
		{"Server=db;User Id=jo;Pwd=PLANTED;/@DETNALP", "Server=db;User Id=jo;Pwd=(removed)"},
		{"DB_PWD=PLANTEDDETNALP", "DB_PWD=(removed)"},
		{
			"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=PLANTED/+DETNALP==;EndpointSuffix=core",
			"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=(removed)",
		},
		{"Endpoint=sb://x/;SharedAccessKey=PLANTED+/DETNALP=", "Endpoint=sb://x/;SharedAccessKey=(removed)"},
		{"GET https://x.example/c?sv=2024&sig=PLANTED%2FDETNALP", "GET https://x.example/c?sv=2024&sig=(removed)"},
		{`{"auths":{"ghcr.io":{"auth":"PLANTEDDETNALP="}}}`, `{"auths":{"ghcr.io":{"auth":(removed)}}}`},
		{"_auth=PLANTEDDETNALP=", "_auth=(removed)"},
		{"postgres://jo:PLANTED/@ \"'DETNALP@db.example.com/x?y=1", "postgres://(removed)@db.example.com/x?y=1"},
		{"postgres://jo:1PLANTED/DETNALP@db.example.com/x", "postgres://(removed)@db.example.com/x"},
		{"https://PLANTEDDETNALP@example.com/x", "https://(removed)@example.com/x"},
		{`parse "redis://:PLANTED DETNALP@db": invalid`, `parse "redis://(removed)@db": invalid`},
		{
			`{"password":1234,"automountServiceAccountToken":true,"token":null,"tokens":[],"c":{"pwd":-1.5e3}}`,
			`{"password":(removed),"automountServiceAccountToken":(removed),"token":(removed),"tokens":(removed),"c":{"pwd":(removed)}}`,
		},
		{`msg="{\"token\":12,\"c\":1}" rows=1`, `msg="{\"token\":(removed),\"c\":1}" rows=1`},
		{`"password": 12,PLANTED 12}DETNALP`, `"password": (removed)`},
		{"password: 12, PLANTED DETNALP", "password: (removed)"},
		{"a:\n  password: |\n    PLANTED\n\n    it is DETNALP\n  b: c\n", "a:\n  password: (removed)\n  b: c\n"},
		{"- password: >-2 # folded\n      PLANTED\n    DETNALP\n  b: c", "- password: (removed)\n  b: c"},
		{"\"password\": !!binary |\n PLANTED\n DETNALP\nb: c", "\"password\": (removed)\nb: c"},
		{"password: |\n  PLANTED\n  DETNALP", "password: (removed)"},
		{"it is ghp_PLANTED0123456789DETNALP.", "it is (removed)"},
		{"it is github_pat_PLANTED0123456789_DETNALP", "it is (removed)"},
		{"it is glpat-PLANTED0123-56789DETNALP", "it is (removed)"},
		{"it is xoxb-12-PLANTED0123456789-DETNALP", "it is (removed)"},
		{"it is sk-ant-PLANTED0123456789-DETNALP", "it is (removed)"},
		{"it is sk_live_PLANTED0123456789DETNALP", "it is (removed)"},
		{"it is npm_PLANTED0123456789DETNALP", "it is (removed)"},
		{"it is dckr_pat_PLANTED0123456789DETNALP", "it is (removed)"},
		{"it is hvs.PLANTED0123456789DETNALP", "it is (removed)"},
	} {
		if got := (remover{}).text(c.text); got != c.remains {
			t.Errorf("%q\nbecomes %q\nand not %q", c.text, got, c.remains)
		}
	}
	for key, secret := range map[string]bool{
		"dbPwd": true, "AccountKey": true, "auth": true, "_auth": true, "user-pass": true, "authority": false, "passed": false, "bypass": false,
	} {
		o := map[string]any{key: "PLANTED"}
		remover{}.object(o)
		if (o[key] == removed) != secret {
			t.Errorf("%s becomes %v", key, o[key])
		}
	}
}

// TestOpenQuotes: a text with very many quotes that do not end is read within the time of a test. It would take an hour if each
// were looked for to the end.
func TestOpenQuotes(t *testing.T) {
	t.Parallel()
	const keys = 100_000
	got := assigned(strings.Repeat("password='PLANTED x\n", keys))
	if want := strings.Repeat("password=(removed)\n", keys); got != want {
		t.Errorf("%d bytes are left, want %d", len(got), len(want))
	}
}

// FuzzSecrets: whatever a secret has within, nothing of it gets out of what people write secrets into.
func FuzzSecrets(f *testing.F) {
	for _, inner := range []string{
		"", "/@ \"'", `\`, `\"`, "`", "','", `", "`, "a:b@c", "; x", "(removed)", "password=", "eyJhbGciOiJSUzI1NiJ9.e", "://", "=\t", "é",
	} {
		f.Add(inner)
	}
	f.Fuzz(func(t *testing.T, inner string) {
		if !utf8.ValidString(inner) || strings.ContainsAny(inner, "\n\r") {
			return // A secret of several lines is none that is given to a key in a text.
		}
		secret := "PLANTED" + inner + "DETNALP"
		quoted, err := json.Marshal(map[string]string{"password": secret, "b": "c"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(string(quoted))
		if err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("it is", "password", secret, "b", "c")
		texts := []string{
			string(quoted), string(again), logged.String(), "run --password '" + strings.ReplaceAll(secret, "'", `'\''`) + "' --verbose",
			"a secret: " + strconv.Quote(secret), "postgres://jo:" + secret + "@db.example.com/x",
		}
		if another.FindString(secret) == "" {
			texts = append(texts, "password="+secret, "Pwd="+secret+";Database=x", "token: "+secret+"\nnext", "AccountKey="+secret)
		}
		for _, text := range texts {
			if got := (remover{}).text(text); strings.Contains(got, "PLANTED") || strings.Contains(got, "DETNALP") {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	})
}
