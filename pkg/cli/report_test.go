package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/inspect/check"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/pkg/inspect/verdicts"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden prints values as people and programs get them. The values are those that the JSON files hold; that package inspect
// finds them is its own tests' to show.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(filepath.Base(file), "inspect-") })
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		formats := []string{formatTable, formatJSON}
		if strings.HasPrefix(name, "explain-") {
			formats = append(formats, formatWide)
		}
		for _, format := range formats {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				switch {
				case strings.HasPrefix(name, "trace-"):
					err = printTrace(&got, read[policytrace.Trace](t, text), format)
				case strings.HasPrefix(name, "explain-"):
					err = printExplanation(&got, read[explain.Explanation](t, text), format)
				case strings.HasPrefix(name, "verdicts-"):
					err = printVerdicts(&got, read[verdicts.Verdicts](t, text), format)
				default:
					err = printReport(&got, read[check.Report](t, text), format)
				}
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", name+"."+format), got.String())
			})
		}
	}
}

func read[V any](t *testing.T, text []byte) V {
	t.Helper()
	var value V
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", file, diff)
	}
}

func TestALongTableIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	var r check.Report
	for i := range maxLines + 7 {
		r.Differences = append(r.Differences, drift.Difference{
			Owner: nb.PodOwner("a", fmt.Sprint(i)), Place: drift.PlaceNorthbound, Kind: drift.RowMissing,
		})
	}
	var out bytes.Buffer
	if err := printReport(&out, r, formatTable); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := lines[len(lines)-3], "and 7 more (-o json has all)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.HasPrefix(lines[len(lines)-1], "107 differences in ") {
		t.Errorf("the last line is no verdict: %q", lines[len(lines)-1])
	}
}
