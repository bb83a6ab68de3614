package monitoring

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// TestDashboard reads the dashboard by Grafana's own schema, which knows each field of each kind of panel, and looks at what a
// schema does not say.
func TestDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text := string(read(t, filepath.Join(dist, "dashboard.json")))
	if wrong := unknownToGrafana(text); wrong != "" {
		t.Fatalf("Grafana's schema: %s", wrong)
	}
	for _, known := range []string{"wideLayout", "legendFormat", "gridPos", "schemaVersion"} {
		if wrong := unknownToGrafana(strings.Replace(text, `"`+known+`"`, `"another"`, 1)); !strings.Contains(wrong, known) &&
			!strings.Contains(wrong, "another") {
			t.Errorf("Grafana's schema does not miss %s: %s", known, wrong)
		}
	}
	var d dashboard.Dashboard //nolint:staticcheck // the form that Grafana imports and provisions from files
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Errorf("Grafana's schema: %v", err)
	}
	ids, queries, taken := map[uint32]bool{}, 0, map[[2]uint32]string{}
	for _, one := range d.Panels {
		p := one.Panel
		if p == nil {
			continue
		}
		if p.Id == nil || p.Title == nil || *p.Title == "" || p.GridPos == nil {
			t.Fatalf("a panel lacks its id, title or place: %+v", p)
		}
		if ids[*p.Id] {
			t.Errorf("two panels have the id %d", *p.Id)
		}
		ids[*p.Id] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, twice := taken[[2]uint32{x, y}]; twice {
					t.Fatalf("panels %q and %q lie over each other", *p.Title, other)
				}
				taken[[2]uint32{x, y}] = *p.Title
			}
		}
		for _, target := range p.Targets {
			query, ok := target.(*prometheus.Dataquery)
			if !ok || query.Expr == "" || query.Datasource == nil || query.Datasource.Uid == nil || *query.Datasource.Uid != "${datasource}" {
				t.Fatalf("panel %q asks not Prometheus by the variable: %#v", *p.Title, target)
			}
			if strings.Count(query.Expr, "(") != strings.Count(query.Expr, ")") {
				t.Errorf("panel %q: %s", *p.Title, query.Expr)
			}
			queries++
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries were looked at", queries)
	}
}

// unknownToGrafana is what the schema does not know, or misses, in a dashboard; empty if nothing. (The reader gives a list of
// errors, also an empty one, and then leaves panels out.)
func unknownToGrafana(text string) string {
	var d dashboard.Dashboard //nolint:staticcheck // the form that Grafana imports and provisions from files
	if err := d.UnmarshalJSONStrict([]byte(text)); err != nil {
		return err.Error()
	}
	return ""
}
