package kube

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// A field that no comparison looks at is one whose change the controller never hears of: it would go on with the old value.
func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	everyFieldCounts(t, samePod)
	everyFieldCounts(t, func(a, b *model.Attachment) bool { return sameAttachment(*a, *b) })
	everyFieldCounts(t, sameNamespace)
	everyFieldCounts(t, sameNetwork)
	everyFieldCounts(t, sameNode)
	everyFieldCounts(t, sameNodeNetwork)
	everyFieldCounts(t, same[model.NodeReport])
	everyFieldCounts(t, sameService)
	everyFieldCounts(t, sameServiceAddresses)
	everyFieldCounts(t, sameSlice)
	everyFieldCounts(t, same[model.Policy])
}

func everyFieldCounts[V any](t *testing.T, same func(a, b *V) bool) {
	t.Helper()
	for i := range reflect.TypeFor[V]().NumField() {
		var before, after V
		field := reflect.ValueOf(&after).Elem().Field(i)
		fill(t, field)
		if same(&before, &after) {
			t.Errorf("%T: nobody hears of a change of %s", before, reflect.TypeFor[V]().Field(i).Name)
		}
	}
}

// fill gives a value anything but nothing.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("10.0.0.1")))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/8")))
		return
	}
	if v.CanInt() {
		v.SetInt(1)
		return
	}
	if v.CanUint() {
		v.SetUint(1)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(t, v.Field(0))
	case reflect.Array:
		fill(t, v.Index(0))
	default:
		t.Fatalf("no value of %s", v.Type())
	}
}
