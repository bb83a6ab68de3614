package ledger_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// newFaces makes the books of one range of two blocks of four.
func newFaces() *ledger.Faces {
	return ledger.NewFaces([]netip.Prefix{netip.MustParsePrefix("100.64.0.0/29")}, 2, pass.NewOrder("pods").Stage("pods"))
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func wantBlocks(t *testing.T, f *ledger.Faces, want map[string][]netip.Prefix) {
	t.Helper()
	got := map[string][]netip.Prefix{}
	for _, node := range f.Nodes() {
		got[node] = f.Blocks(node)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

func TestNodesKeepTheirBlocks(t *testing.T) {
	t.Parallel()
	f := newFaces()
	f.Keep("n1", prefixes("100.64.0.4/30"))
	f.Keep("n2", prefixes("100.64.0.4/30"))
	if full := f.Give("n2"); len(full) != 0 {
		t.Errorf("no block for n2 in %v", full)
	}
	if full := f.Give("n3"); !slices.Equal(full, f.Ranges()) {
		t.Errorf("n3 got a block of a full range; %v are full", full)
	}
	wantBlocks(t, f, map[string][]netip.Prefix{"n1": prefixes("100.64.0.4/30"), "n2": prefixes("100.64.0.0/30")})
	if !f.Forget("n2") {
		t.Error("a block that no pod uses was kept")
	}
	if full := f.Give("n3"); len(full) != 0 {
		t.Errorf("a block came free, and %v are full", full)
	}
}

func TestABlockStaysWhilePodsHaveFacesOfIt(t *testing.T) {
	t.Parallel()
	f := newFaces()
	face, key := netip.MustParseAddr("100.64.0.6"), model.PodKey{Namespace: "r", Name: "a"}
	if !f.Reclaim("n1", []netip.Addr{face}) || f.Reclaim("n1", []netip.Addr{face}) {
		t.Error("a node gets the blocks of its pods' faces once")
	}
	f.Pool("n1", true).Keep(face, ledger.Pod(key))
	if f.Forget("n1") {
		t.Error("a block was taken of which a pod has a face")
	}
	if holder, held := f.Holder(face); !held || holder != key {
		t.Errorf("face %s is of %v", face, holder)
	}
	if f.Pool("n1", false) != nil || !f.Contains(face) || f.Contains(netip.MustParseAddr("100.64.0.8")) {
		t.Error("faces are of the one range")
	}
	f.Release("n1", []netip.Addr{face}, key)
	if _, held := f.Holder(face); held || !f.Forget("n1") {
		t.Error("nobody has the face, and the block is kept")
	}
	wantBlocks(t, f, map[string][]netip.Prefix{})
}
