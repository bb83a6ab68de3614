package central

import (
	"net/netip"
	"testing"
)

// TestMembersAreSourcesByThemselves: a member is known by its address as soon as the record is, so that connections of machines
// on its link do not count as its own.
func TestMembersAreSourcesByThemselves(t *testing.T) {
	t.Parallel()
	k := NewKeeper(Store{}, Options{Kind: Southbound, Node: "n1", Data: t.TempDir()})
	member, other := netip.MustParseAddr("2001:db8::a"), netip.MustParseAddr("2001:db8::b")
	if k.isMember(member) {
		t.Error("a member without a record")
	}
	k.know(t.Context(), Database{Members: []Member{{Node: "n2", Address: member}}})
	if !k.isMember(member) || k.isMember(other) {
		t.Errorf("members: %t, %t", k.isMember(member), k.isMember(other))
	}
}
