package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// apiTypes are where the types of atoll.dev are.
const apiTypes = "pkg/apis/atoll/v1alpha1"

// Types are those of a package: what API pages show of it.
type Types map[string]*ast.StructType

// ReadTypes reads the types of the API.
func ReadTypes(root string) (Types, error) {
	files, err := filepath.Glob(filepath.Join(root, apiTypes, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list types: %w", err)
	}
	types := Types{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read types: %w", err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if of, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = of
				}
			}
			return true
		})
	}
	return types, nil
}

// Fields is a table of the fields of a type, in the order of its source, with those of the types of its fields: the words are the
// comments there, which kubectl explain shows. Types in apart have tables of their own.
func (t Types) Fields(name string, apart ...string) (string, error) {
	rows, err := t.rows("", name, apart)
	return "| Field | Meaning | Default |\n|---|---|---|\n" + strings.Join(rows, ""), err
}

func (t Types) rows(prefix, name string, apart []string) ([]string, error) {
	of, found := t[name]
	if !found {
		return nil, fmt.Errorf("there is no struct %s", name)
	}
	var rows []string
	for _, field := range of.Fields.List {
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("tag of a field of %s: %w", name, err)
		}
		json, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if json == "" {
			return nil, errors.New(name + " has a field without a name")
		}
		if field.Doc == nil {
			return nil, fmt.Errorf("%s.%s has no comment", name, json)
		}
		words, standard := told(field.Doc)
		below, list := inside(field.Type)
		if list {
			json += "[]"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", prefix+json, words, standard))
		if _, ours := t[below]; !ours || slices.Contains(apart, below) {
			continue
		}
		more, err := t.rows(prefix+json+".", below, apart)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// inside is the name of the type that a field is of, or points to, or has many of.
func inside(expr ast.Expr) (name string, list bool) {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name, false
	case *ast.StarExpr:
		return inside(e.X)
	case *ast.ArrayType:
		name, _ = inside(e.Elt)
		return name, true
	}
	return "", false
}

// told is what a field's comment says in words, and its default by the markers of controller-gen.
func told(doc *ast.CommentGroup) (words, standard string) {
	var lines []string
	for line := range strings.Lines(doc.Text()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	for _, c := range doc.List {
		marker := strings.TrimPrefix(strings.TrimPrefix(c.Text, "// "), "//")
		if marker == "+required" {
			standard = "required"
		}
		for _, key := range []string{"+default=", "+kubebuilder:default="} {
			if value, found := strings.CutPrefix(marker, key); found && value != "{}" {
				standard = "`" + strings.NewReplacer("{", "", "}", "", `"`, "", ",", ", ").Replace(value) + "`"
			}
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(lines, " ")), "|", `\|`), standard
}
