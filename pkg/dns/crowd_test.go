package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// manyNames are endpoints that have one address and each a name of its own.
func manyNames(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("h%06d=198.51.100.7", i))
	}
	return out
}

// crowded is a world with a headless Service whose slices give one address a thousand names each.
func crowded(t testing.TB, count int) *world {
	w := newWorld(t, vpc("red"))
	w.SetNamespace(namespaceIn("red", "red"))
	w.SetService(headless("red/big"))
	for i := range count {
		w.put(fmt.Sprintf("big-%02d", i), slice("red/big", "red", manyNames(1000*i, 1000*(i+1))...))
	}
	return w
}

// However many names slices give an address, few are remembered, and the same ones whatever the order in which slices came.
func TestNamesOfAnAddressAreBounded(t *testing.T) {
	w := crowded(t, 9)
	zone, at := w.served["red"].zone, addr("198.51.100.7")
	remembered := func() (names []string) {
		for _, h := range zone.reverse[at] {
			names = append(names, h.names...)
		}
		return names
	}
	if got := remembered(); len(got) != maxPointers || got[0] != "h000000" || got[maxPointers-1] != "h000063" {
		t.Errorf("%d names of one address are remembered: %v", len(got), got)
	}
	const question = "7.100.51.198.in-addr.arpa."
	m := new(dns.Msg)
	m.SetQuestion(question, dns.TypePTR)
	if got := w.exchange(t, "red", m, true); len(got.Answer) != maxPointers || got.Truncated {
		t.Errorf("%d names are told, cut: %v", len(got.Answer), got.Truncated)
	}
	// Others that give it names have their place, and get it all when the first one goes.
	w.SetService(headless("red/also"))
	w.put("also-1", slice("red/also", "red", "z=198.51.100.7", "a=198.51.100.7", "a=198.51.100.7"))
	if got := w.exchange(t, "red", m, true); len(got.Answer) != maxPointers ||
		!strings.HasPrefix(got.Answer[0].String(), question+"\t5\tIN\tPTR\ta.also.red.") {
		t.Errorf("%d names are told, the first is %v", len(got.Answer), got.Answer[0])
	}
	for i := range 9 {
		w.RemoveSlice(SliceKey{Namespace: "red", Name: fmt.Sprintf("big-%02d", i)})
	}
	if got := remembered(); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("%v are remembered when the first Service's endpoints have gone", got)
	}
	w.RemoveSlice(SliceKey{Namespace: "red", Name: "also-1"})
	if len(zone.reverse)+len(zone.virtual) != 0 {
		t.Errorf("%v and %v are remembered when all have gone", zone.reverse, zone.virtual)
	}
}

// Of more endpoints than may be told of, those of the first slices by name are, whatever the order in which slices came.
func TestEndpointsOfAServiceAreBounded(t *testing.T) {
	told := func(order []int) string {
		w := newWorld(t, vpc("red"))
		w.SetNamespace(namespaceIn("red", "red"))
		w.SetService(headless("red/big"))
		for _, i := range order {
			w.put(fmt.Sprintf("big-%02d", i), slice("red/big", "red", manyNames(900*i, 900*(i+1))...))
		}
		all := w.served["red"].zone.services[key("red/big")].endpoints
		return fmt.Sprint(len(all), " from ", all[0].host, " to ", all[len(all)-1].host)
	}
	order := []int{3, 11, 0, 7, 1, 12, 10, 2, 9, 8, 5, 6, 4}
	want := fmt.Sprintf("%d from h000000 to h%06d", maxEndpoints, maxEndpoints-1)
	for range 2 {
		if got := told(order); got != want {
			t.Errorf("told of are %s, want %s", got, want)
		}
		slices.Reverse(order)
	}
}

// BenchmarkCrowd is a change of one of twenty slices that give one address a thousand names each, and a question for the address.
func BenchmarkCrowd(b *testing.B) {
	w := crowded(b, 20)
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			w.put("big-03", slice("red/big", "red", manyNames(3000+i%2, 4000)...))
		}
	})
	b.Run("question", func(b *testing.B) {
		m := new(dns.Msg)
		m.SetQuestion("7.100.51.198.in-addr.arpa.", dns.TypePTR)
		packet, err := m.Pack()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			w.raw(b, "red", packet, true)
		}
	})
	b.Run("location", func(b *testing.B) {
		m := new(dns.Msg)
		m.SetQuestion("_http._tcp.big.red.svc.cluster.local.", dns.TypeSRV)
		packet, err := m.Pack()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			w.raw(b, "red", packet, true)
		}
	})
}
