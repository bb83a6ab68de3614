package nb_test

import (
	"reflect"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestRowsCloneAndCompareEveryColumn fails when a column is added that the methods forget.
func TestRowsCloneAndCompareEveryColumn(t *testing.T) {
	rows := []nb.Row{&nb.Global{}}
	for _, table := range nb.Tables() {
		rows = append(rows, table.New())
	}
	for _, row := range rows {
		fields := reflect.TypeOf(row).Elem()
		for i := range fields.NumField() {
			name := fields.Name() + "." + fields.Field(i).Name
			a := reflect.New(fields)
			set(a.Elem().Field(i), "x")
			b := model.Clone(a.Interface())
			if !reflect.DeepEqual(a.Interface(), b) || !model.Equal(a.Interface(), b) {
				t.Errorf("%s: the clone %+v differs from %+v", name, b, a.Interface())
			}
			set(a.Elem().Field(i), "y")
			if model.Equal(a.Interface(), b) || reflect.DeepEqual(a.Interface(), b) {
				t.Errorf("%s: a changed row equals its clone, or changes it", name)
			}
		}
	}
}

// set puts a value into a field, in place where that is possible.
func set(f reflect.Value, v string) {
	switch f.Kind() {
	case reflect.String:
		f.SetString(v)
	case reflect.Slice:
		if f.Len() == 0 {
			f.Set(reflect.ValueOf([]string{""}))
		}
		f.Index(0).SetString(v)
	case reflect.Map:
		if f.IsNil() {
			f.Set(reflect.MakeMap(f.Type()))
		}
		f.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf(v))
	case reflect.Pointer:
		if f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
		}
		set(f.Elem(), v)
	case reflect.Int:
		f.SetInt(int64(v[0]))
	case reflect.Bool:
		f.SetBool(v == "x")
	default:
		panic("a column of a kind that this test does not know: " + f.Kind().String())
	}
}
