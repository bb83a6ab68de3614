package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := New(&out, 2, "three figures")
	tab.Judged("a", "< 5", "4", true, 0.25)
	tab.Judged("b", "< 5", "6", false, Nobody)
	tab.Gap()
	tab.Figure("c", "7", 0)
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `three figures

what  target  measured  verdict  processors used by others  
a     < 5     4         met      0.2 of 2                   
b     < 5     6         MISSED                              

c    7    0.0 of 2  
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := Write(filepath.Join(path, "below"), nil); err == nil {
		t.Error("wrote below a file")
	}
}
