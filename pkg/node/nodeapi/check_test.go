package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// checks are told by a function.
type checks struct {
	answers
	check func(ctx context.Context, repair bool) (api.NodeCheckStatus, error)
}

func (c checks) Check(ctx context.Context, repair bool) (api.NodeCheckStatus, error) {
	return c.check(ctx, repair)
}

// TestChecksAreTold: what an agent finds, and what it repaired, as a whole; and why it does not look.
func TestChecksAreTold(t *testing.T) {
	t.Parallel()
	iface := api.NodeDifference{Owner: "Pod/red/web", Kind: api.NodeInterfaceDiffers, Object: "Interface atoll-x", Want: "iface-id=red/web"}
	found := api.NodeCheckStatus{Interfaces: 3, Portholes: 1, Differences: []api.NodeDifference{iface}, More: 2}
	client := serving(t, Handler(checks{check: func(_ context.Context, repair bool) (api.NodeCheckStatus, error) {
		if repair {
			return api.NodeCheckStatus{Interfaces: 3, Portholes: 1, Repaired: []api.NodeDifference{iface}, Problem: "and half of another"}, nil
		}
		return found, nil
	}}, quiet()))
	got, err := client.Check(t.Context(), CheckQuestion{User: "jo"})
	if diff := cmp.Diff(found, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	got, err = client.Check(t.Context(), CheckQuestion{User: "jo", Repair: true})
	if err != nil || len(got.Differences) != 0 || !slices.Equal(got.Repaired, []api.NodeDifference{iface}) || got.Problem == "" {
		t.Errorf("of a repair: %v, %+v", err, got)
	}
	if _, err := client.Check(t.Context(), CheckQuestion{}); err == nil || !strings.Contains(err.Error(), "on whose account") {
		t.Errorf("on nobody's account: %v", err)
	}
	begun := serving(t, Handler(checks{check: func(context.Context, bool) (api.NodeCheckStatus, error) {
		return api.NodeCheckStatus{}, &RefusedError{What: "it has only just begun", Temporary: true}
	}}, quiet()))
	_, err = begun.Check(t.Context(), CheckQuestion{User: "jo"})
	if r, ok := errors.AsType[*RefusedError](err); !ok || !r.Temporary || !strings.Contains(r.What, "node n1: it has only just begun") {
		t.Errorf("who refuses: %v", err)
	}
	older := serving(t, http.NotFoundHandler())
	if _, err := older.Check(t.Context(), CheckQuestion{User: "jo"}); err == nil ||
		!strings.Contains(err.Error(), "older than atoll-inspect") {
		t.Errorf("an agent that does not know the question: %v", err)
	}
	long := serving(t, Handler(checks{check: func(context.Context, bool) (api.NodeCheckStatus, error) {
		d := iface
		d.Have = strings.Repeat("x", 10*maxText)
		return api.NodeCheckStatus{Differences: slices.Repeat([]api.NodeDifference{d}, api.MaxNodeDifferences)}, nil
	}}, quiet()))
	if got, err := long.Check(t.Context(), CheckQuestion{User: "jo"}); err != nil || len(got.Differences) != api.MaxNodeDifferences ||
		len(got.Differences[0].Have) != maxText {
		t.Errorf("texts that are too long: %v, %d differences", err, len(got.Differences))
	}
}

// TestCheckersAreNotBelieved: what no agent can have found, and what is cut off, is no answer.
func TestCheckersAreNotBelieved(t *testing.T) {
	t.Parallel()
	text := func(c api.NodeCheckStatus) string {
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	one := api.NodeDifference{Object: "Interface x"}
	for name, c := range map[string]struct{ text, want string }{
		"whole":   {text(api.NodeCheckStatus{Differences: []api.NodeDifference{one}}), ""},
		"cut":     {text(api.NodeCheckStatus{Differences: []api.NodeDifference{one}})[:20], "unexpected end"},
		"nothing": {"", "unexpected end"},
		"too many": {
			text(api.NodeCheckStatus{Differences: slices.Repeat([]api.NodeDifference{one}, api.MaxNodeDifferences+1)}), "more differences",
		},
		"too long":      {strings.Repeat(" ", maxCheck+1), "too long"},
		"less than any": {`{"more":-1}`, "less than nothing"},
		"silent":        {text(api.NodeCheckStatus{Silent: "no"}), "has not answered"},
		"repaired":      {text(api.NodeCheckStatus{Repaired: []api.NodeDifference{one}}), "nobody asked it to"},
	} {
		client := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
		_, err := client.Check(t.Context(), CheckQuestion{User: "jo"})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestChecksAreBounded: a node is looked through by no more at once than may, and whoever pings does not wait for them.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	client := serving(t, Handler(checks{check: func(context.Context, bool) (api.NodeCheckStatus, error) {
		enter <- struct{}{}
		<-leave
		return api.NodeCheckStatus{}, nil
	}}, quiet()))
	ask := func() error {
		_, err := client.Check(t.Context(), CheckQuestion{User: "jo"})
		return err
	}
	var asking sync.WaitGroup
	for range maxChecksAtOnce {
		asking.Go(func() {
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
		<-enter
	}
	if r, ok := errors.AsType[*RefusedError](ask()); !ok || !r.Temporary {
		t.Errorf("one too many: %v", r)
	}
	close(leave)
	asking.Wait()
	// The control: there is room again.
	asking.Go(func() {
		if err := ask(); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
	<-enter
	asking.Wait()
}
