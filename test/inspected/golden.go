package inspected

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden values anew; then let package cli's tests print them")

// Golden compares a value with the one that package cli's golden files print: its own tests hold how they print it.
func Golden[V interface{ Verdict() string }](t *testing.T, name string, got V, options ...cmp.Option) {
	t.Helper()
	file := filepath.Join(testdata(t), name+".json")
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want V
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, append(options, cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", name, diff)
	}
}

// GoldenValue compares a value with the one that package cli's tests print.
func GoldenValue[V any](t *testing.T, name string, got V) {
	t.Helper()
	file := filepath.Join(testdata(t), "inspect-"+name+".json")
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", name, diff)
	}
}

func ListType(kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: kind}
}

// testdata is where package cli has its golden files.
func testdata(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "pkg", "cli", "testdata")
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
