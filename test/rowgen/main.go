// Program rowgen writes the row types of package nb: the tables and columns that columns.go lists, with the types, references and
// roots that OVN's schema gives them. Its argument is the file.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"strings"
	"text/template"

	"github.com/ovn-kubernetes/libovsdb/modelgen"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

//go:embed ovn-nb.ovsschema
var schemaText []byte

//go:embed rows.go.tmpl
var rowsText string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rowgen FILE")
		os.Exit(2)
	}
	source, err := generate()
	if err == nil {
		err = os.WriteFile(os.Args[1], source, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rowgen:", err)
		os.Exit(1)
	}
}

func generate() ([]byte, error) {
	var schema ovsdb.DatabaseSchema
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	data := struct {
		Database string
		Tables   []goTable
	}{Database: schema.Name}
	goNames := map[string]string{}
	for _, t := range tables {
		goNames[t.name] = t.goName
		if t.goName == "" {
			goNames[t.name] = modelgen.StructName(t.name)
		}
	}
	for _, t := range tables {
		made, err := tableOf(t, schema, goNames)
		if err != nil {
			return nil, fmt.Errorf("look up table %s: %w", t.name, err)
		}
		data.Tables = append(data.Tables, made)
	}
	var out bytes.Buffer
	if err := template.Must(template.New("rows").Parse(rowsText)).Execute(&out, data); err != nil {
		return nil, fmt.Errorf("write source: %w", err)
	}
	source, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format source: %w", err)
	}
	return source, nil
}

// goTable is a table as the template has it.
type goTable struct {
	Name, Go, Doc string
	Root, Shared  bool
	Columns       []goColumn
}

type goColumn struct {
	Name, Go, Type, Doc string
	Member, Map         bool
	// Target is the type of the rows that a member column refers to. Weak references keep no row alive.
	Target string
	Weak   bool
}

func tableOf(t table, schema ovsdb.DatabaseSchema, goNames map[string]string) (goTable, error) {
	known := schema.Table(t.name)
	if known == nil {
		return goTable{}, fmt.Errorf("the schema has none of that name")
	}
	out := goTable{Name: t.name, Go: goNames[t.name], Doc: t.doc, Root: known.IsRoot, Shared: t.shared}
	for _, c := range t.columns {
		column := known.Columns[c.name]
		if column == nil {
			return goTable{}, fmt.Errorf("the schema has no column %s", c.name)
		}
		made := goColumn{Name: c.name, Go: c.goName, Type: modelgen.FieldType(t.name, c.name, column), Doc: c.doc, Member: c.member}
		if made.Go == "" {
			made.Go = modelgen.FieldName(c.name)
		}
		made.Map = strings.HasPrefix(made.Type, "map")
		if c.member && column.TypeObj.Key.Type == ovsdb.TypeUUID {
			target, err := column.TypeObj.Key.RefTable()
			if err != nil {
				return goTable{}, fmt.Errorf("column %s: %w", c.name, err)
			}
			if made.Target = goNames[target]; made.Target == "" {
				return goTable{}, fmt.Errorf("column %s refers to %s, which is not listed", c.name, target)
			}
			how, err := column.TypeObj.Key.RefType()
			if err != nil {
				return goTable{}, fmt.Errorf("column %s: %w", c.name, err)
			}
			made.Weak = how == ovsdb.Weak && !schema.Table(target).IsRoot
		}
		out.Columns = append(out.Columns, made)
	}
	return out, nil
}

// Owned reports whether the table has the column that says whose a row is.
func (t goTable) Owned() bool {
	for _, c := range t.Columns {
		if c.Name == externalIDs.name {
			return true
		}
	}
	return false
}

// Members are its member columns.
func (t goTable) Members() []goColumn {
	var out []goColumn
	for _, c := range t.Columns {
		if c.Member {
			out = append(out, c)
		}
	}
	return out
}

// Equal is an expression that compares the column of rows r and o.
func (c goColumn) Equal() string {
	of := map[byte]string{'m': "maps.Equal(r.%[1]s, o.%[1]s)", '[': "slices.Equal(r.%[1]s, o.%[1]s)", '*': "same(r.%[1]s, o.%[1]s)"}[c.kind()]
	if of == "" {
		of = "r.%[1]s == o.%[1]s"
	}
	return fmt.Sprintf(of, c.Go)
}

// Copy is a call that copies the column of row r; empty for one that is copied along with its row.
func (c goColumn) Copy() string {
	of := map[byte]string{'m': "maps.Clone", '[': "slices.Clone", '*': "copied"}[c.kind()]
	if of == "" {
		return ""
	}
	return of + "(r." + c.Go + ")"
}

func (c goColumn) kind() byte {
	if c.Map {
		return 'm'
	}
	return c.Type[0]
}
