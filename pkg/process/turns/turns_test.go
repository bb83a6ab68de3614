package turns_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/atoll-net/atoll/pkg/process/turns"
)

var bounds = turns.Bounds{Every: 16, Each: 4, Kept: 4}

func tenant(name string) turns.Who { return turns.Who{Share: "tenant/" + name, Tenant: true} }

func operator(name string) turns.Who { return turns.Who{Share: name, Operator: true} }

// takes is how many places somebody gets who asks until they are refused.
func takes(t *testing.T, from *turns.Turns, w turns.Who) (n int, leave []func()) {
	t.Helper()
	for {
		out, err := from.Enter(w)
		if err != nil {
			if full := (*turns.FullError)(nil); !errors.As(err, &full) {
				t.Fatal(err)
			}
			return n, leave
		}
		n, leave = n+1, append(leave, out)
	}
}

// TestNobodyTakesAll: whatever one Tenant takes, and whoever has none, others get a place, and operators theirs. The control is
// one count for all, which the first who come have.
func TestNobodyTakesAll(t *testing.T) {
	t.Parallel()
	from := turns.New("pings", bounds)
	if n, _ := takes(t, from, tenant("mallory")); n != bounds.Each {
		t.Errorf("a Tenant takes %d", n)
	}
	var namespaces int
	for i := range 100 {
		n, _ := takes(t, from, turns.Who{Share: fmt.Sprintf("system:serviceaccount:own-%d", i)})
		namespaces += n
	}
	if namespaces != 6 {
		t.Errorf("ServiceAccounts of a hundred namespaces without a Tenant take %d of 12", namespaces)
	}
	if n, _ := takes(t, from, tenant("acme")); n == 0 {
		t.Error("another Tenant takes none")
	}
	for i := range 10 {
		_, _ = takes(t, from, tenant(fmt.Sprint(i)))
	}
	if n, _ := takes(t, from, operator("ann")); n != bounds.Kept {
		t.Errorf("an operator takes %d", n)
	}
	control := turns.New("pings", turns.Bounds{Every: 16, Each: 4})
	for i := range 4 {
		_, _ = takes(t, control, turns.Who{Share: fmt.Sprintf("system:serviceaccount:own-%d", i)})
	}
	if n, _ := takes(t, control, operator("ann")); n != 0 {
		t.Errorf("where nothing is kept an operator takes %d", n)
	}
}

// TestPlacesComeBack: who leaves twice leaves once, and what is left is somebody else's.
func TestPlacesComeBack(t *testing.T) {
	t.Parallel()
	from := turns.New("pings", turns.Bounds{Every: 2, Each: 2})
	n, leave := takes(t, from, tenant("acme"))
	leave[0]()
	leave[0]()
	if m, _ := takes(t, from, tenant("umbrella")); n != 2 || m != 1 {
		t.Errorf("acme takes %d, and then umbrella %d", n, m)
	}
	_, err := from.Enter(tenant("umbrella"))
	if err == nil || !strings.Contains(err.Error(), "there are 2 pings already") {
		t.Error(err)
	}
}

// TestWhoWaitsIsServedInTurn: the share that was served longest ago is next, however many of another wait, and an operator waits
// for none of them.
func TestWhoWaitsIsServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := turns.New("answers", turns.Bounds{Every: 2, Each: 1, Kept: 1})
		_, leave := takes(t, from, tenant("mallory"))
		served := make(chan string, 4)
		wait := func(ctx context.Context, w turns.Who) {
			go func() {
				if out, err := from.Wait(ctx, w); err == nil {
					served <- w.Share
					defer out()
				} else {
					served <- err.Error()
				}
			}()
			synctest.Wait()
		}
		wait(t.Context(), tenant("mallory"))
		wait(t.Context(), tenant("mallory"))
		wait(t.Context(), tenant("acme"))
		wait(t.Context(), operator("ann"))
		if got := <-served; got != "ann" {
			t.Errorf("the operator waits for %q", got)
		}
		gone, cancel := context.WithCancel(t.Context())
		wait(gone, tenant("gone"))
		cancel()
		if got := <-served; !strings.Contains(got, "there are") {
			t.Errorf("who waits in vain is told %q", got)
		}
		leave[0]()
		if first := <-served; first != "tenant/acme" || <-served != "tenant/mallory" || <-served != "tenant/mallory" {
			t.Errorf("served first is %s", first)
		}
	})
}

// TestManySharesWaitInOneLine: who has no Tenant, and any number of shares, is served in turn with a Tenant, however often new
// ones of these come.
func TestManySharesWaitInOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := turns.New("answers", turns.Bounds{Every: 2, Each: 1, Kept: 1})
		own := func(i int) turns.Who { return turns.Who{Share: fmt.Sprintf("system:serviceaccount:own-%d", i)} }
		_, leave := takes(t, from, own(0))
		served := make(chan string, 6)
		for _, w := range []turns.Who{tenant("acme"), tenant("acme"), own(1), own(2), own(3)} {
			go func() {
				if out, err := from.Wait(t.Context(), w); err == nil {
					served <- w.Share
					defer out()
				}
			}()
			synctest.Wait()
		}
		leave[0]()
		synctest.Wait()
		close(served)
		var got []string
		for share := range served {
			got = append(got, strings.TrimPrefix(share, "system:serviceaccount:"))
		}
		if want := "tenant/acme own-1 tenant/acme own-2 own-3"; strings.Join(got, " ") != want {
			t.Errorf("served are %v, want %s", got, want)
		}
	})
}
