package drift

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// nothing stands for an empty value in what people read.
const nothing = "-"

// Describe names a row as TABLE NAME; one without a name by its UUID.
func Describe(r nb.Row) string {
	name := ""
	if field := ColumnValue(r, "name"); field.IsValid() && field.Kind() == reflect.String {
		name = field.String()
	}
	switch r := r.(type) {
	case *nb.Global:
		name = "." // as ovn-nbctl calls the one row of a table
	case *nb.StaticRoute:
		name = r.IPPrefix + " via " + r.Nexthop
	case *nb.PortGroup:
		name = r.ExternalIDs[nb.KeyNetwork] + " [" + r.ExternalIDs[nb.KeySelector] + "]"
	case *nb.ACL:
		if r.Name != nil {
			name = *r.Name
		}
	}
	if name == "" {
		name = r.ID()
	}
	return r.Table().String() + " " + name
}

// ColumnValue is a column of a row; invalid when the row type has no such column.
func ColumnValue(r nb.Row, column string) reflect.Value {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("ovsdb") == column {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// columnTexts are the values of a column in two rows; of two maps only what differs.
func columnTexts(want, have nb.Row, column string) (string, string) {
	w, h := ColumnValue(want, column), ColumnValue(have, column)
	if !w.IsValid() || !h.IsValid() {
		return nothing, nothing
	}
	wantMap, ok := reflect.TypeAssert[map[string]string](w)
	if !ok {
		return valueText(w), valueText(h)
	}
	haveMap, _ := reflect.TypeAssert[map[string]string](h)
	return mapText(wantMap, haveMap), mapText(haveMap, wantMap)
}

func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nothing
		}
		v = v.Elem()
	}
	text := fmt.Sprint(v.Interface())
	if list, ok := reflect.TypeAssert[[]string](v); ok {
		text = strings.Join(slices.Sorted(slices.Values(list)), ", ")
	}
	if text == "" {
		return nothing
	}
	return text
}

// mapText is what m has otherwise than other.
func mapText(m, other map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if v, there := other[key]; !there || v != m[key] {
			words = append(words, key+"="+m[key])
		}
	}
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, " ")
}

// attachmentText is an annotation's content as people read it.
func attachmentText(list []model.Attachment) string {
	var all []string
	for _, a := range list {
		words := []string{a.Network + "/" + a.Subnet, a.Interface, a.MAC}
		for _, p := range a.Addresses {
			words = append(words, p.String())
		}
		for _, g := range a.Gateways {
			words = append(words, "via "+g.String())
		}
		all = append(all, strings.Join(words, " "))
	}
	if len(all) == 0 {
		return nothing
	}
	return strings.Join(all, "; ")
}
