package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestLoads: the older fit first, one that does not fit leaves its room to the next, and tenants do not count for each other.
func TestLoads(t *testing.T) {
	t.Parallel()
	l := ledger.NewLoads[model.ServiceKey](10)
	key := func(name string) model.ServiceKey { return model.ServiceKey{Namespace: "r", Name: name} }
	enter := func(name, share string, age int64, weight int) func() {
		return func() { l.Enter(key(name), share, time.Unix(age, 0), weight) }
	}
	for _, step := range []struct {
		what   string
		do     func()
		turned []string
		beyond []string
	}{
		{"one", enter("a", "red", 1, 6), nil, nil},
		{"a younger one that does not fit", enter("b", "red", 2, 5), []string{"b"}, []string{"b"}},
		{"one that fits beside", enter("c", "red", 3, 4), nil, []string{"b"}},
		{"another tenant's", enter("d", "blue", 4, 10), nil, []string{"b"}},
		{"the oldest grows", enter("a", "red", 1, 7), []string{"c"}, []string{"b", "c"}},
		{"the same again", enter("a", "red", 1, 7), nil, []string{"b", "c"}},
		{"it shrinks", enter("a", "red", 1, 5), []string{"b"}, []string{"c"}},
		{"one becomes the other tenant's", enter("b", "blue", 2, 5), []string{"c", "d"}, []string{"d"}},
		{"one goes", func() { l.Leave(key("b")) }, []string{"d"}, nil},
		{"all go", func() {
			for _, name := range []string{"a", "c", "d"} {
				l.Leave(key(name))
			}
		}, nil, nil},
	} {
		step.do()
		var turned, beyond []string
		for _, k := range l.Settle() {
			turned = append(turned, k.Name)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if l.Beyond(key(name)) {
				beyond = append(beyond, name)
			}
		}
		if !slices.Equal(turned, step.turned) || !slices.Equal(beyond, step.beyond) {
			t.Errorf("%s: %v have turned, and %v are beyond; want %v and %v", step.what, turned, beyond, step.turned, step.beyond)
		}
	}
}
