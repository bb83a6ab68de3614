package central

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Form is what a database file is.
type Form int

// The forms of a file.
const (
	NoFile Form = iota
	Clustered
	// Foreign is a file that is no database of a cluster, or cannot be read.
	Foreign
)

// Header is what a database file says of itself.
type Header struct {
	Form                Form
	ClusterID, ServerID string
	// Address is the server's own raft address, in the form of ovsdb(7).
	Address string
}

// Situation is all that a member's next step depends on.
type Situation struct {
	Kind Kind
	// Node and Address are this member's.
	Node    string
	Address netip.Addr
	// Size is how many members the cluster is to have.
	Size   int
	Record Database
	// File is what ovsdb-server opens. Draft is a file that it has never opened, and becomes File when the record has its ids.
	File, Draft Header
	// Abandoned: the record's Bootstrap is a node that does not exist any more.
	Abandoned bool
}

// Action is what a member does next.
type Action int

// The actions.
const (
	// Wait, and look again.
	Wait Action = iota
	// Refuse to go on: a person must look.
	Refuse
	// WriteRecord replaces the record, if it still is what the situation says.
	WriteRecord
	// CreateDraft makes the first file of a new cluster, JoinDraft one that joins the record's.
	CreateDraft
	JoinDraft
	// MoveDraft puts the draft aside, Promote makes it the file.
	MoveDraft
	Promote
	// MoveFile puts the file of a cluster that was given up aside.
	MoveFile
	// Serve runs ovsdb-server on the file.
	Serve
)

// Step is an action, the record to write, and why.
type Step struct {
	Action Action
	Record Database
	Reason string
	// Tell says that a person must do something meanwhile: by an Event, too.
	Tell bool
}

// Decide says what a member does next.
func Decide(s Situation) Step {
	me, member := s.Record.Member(s.Node)
	if s.File.Form != NoFile {
		return s.withFile(me, member)
	}
	if s.Draft.Form == Clustered && member && !me.Lost && s.Draft.ServerID == me.ServerID && s.Draft.ClusterID == s.Record.ClusterID &&
		s.Draft.Address == raftAddress(s.Kind, s.Address, me.Raft) {
		return Step{Action: Promote}
	}
	if member && me.ServerID != "" {
		return s.lost(me)
	}
	if !member {
		return s.enter()
	}
	if me.Address != s.Address {
		me.Address = s.Address
		return Step{Action: WriteRecord, Record: s.Record.with(me), Reason: "this node has another address now"}
	}
	if s.Draft.Form != NoFile && (s.Draft.Form != Clustered || s.Draft.Address != s.wanted()) {
		return Step{Action: MoveDraft, Reason: "it is not of this member"}
	}
	if slices.Contains(s.Record.Before, s.Draft.ClusterID) {
		return Step{Action: MoveDraft, Reason: "it is of cluster " + s.Draft.ClusterID + ", which was given up"}
	}
	if s.Record.ClusterID == "" {
		return s.bootstrap(me)
	}
	switch {
	case s.Draft.Form == NoFile:
		return Step{Action: JoinDraft}
	case s.Draft.ClusterID != s.Record.ClusterID:
		return Step{
			Action: MoveDraft, Reason: "it is of cluster " + s.Draft.ClusterID + ", which never began: the record has " + s.Record.ClusterID,
		}
	default:
		me.ServerID = s.Draft.ServerID
		me.Raft, _ = s.raft(s.Draft.Address)
		return Step{Action: WriteRecord, Record: s.Record.with(me), Reason: "this member's server id"}
	}
}

// withFile decides for a member that has a database.
func (s Situation) withFile(me Member, member bool) Step {
	refuse := func(format string, args ...any) Step {
		return Step{Action: Refuse, Reason: fmt.Sprintf(format, args...)}
	}
	by, own := s.raft(s.File.Address)
	const aside = "If this file is not wanted, move it away (do not delete it) and let this container start again: the " +
		"member joins with an empty one."
	switch {
	case s.File.Form == Foreign:
		return refuse("the database file cannot be read as one of a cluster. %s", aside)
	case slices.Contains(s.Record.Before, s.File.ClusterID):
		return Step{Action: MoveFile, Reason: "it is of cluster " + s.File.ClusterID + ", which was given up"}
	case s.Record.ClusterID == "":
		return refuse(
			"the database file is of cluster %s, but the record knows no cluster: the ConfigMap %s is lost, or the file is of another "+
				"installation. See docs/design/central.md, \"The record is lost\"", s.File.ClusterID, RecordName)
	case s.File.ClusterID != s.Record.ClusterID:
		return refuse("the database file is of cluster %s, but the record's is %s. %s", s.File.ClusterID, s.Record.ClusterID, aside)
	case !member:
		return refuse("the database file is of server %s, but the record has no member on this node. %s", s.File.ServerID, aside)
	case by == Direct && (me.Lost || me.ServerID == "") && s.Record.mayLeave(s.Node):
		return Step{Action: MoveFile, Reason: errJoinsAnew.Error()}
	case s.File.ServerID != me.ServerID:
		return refuse("the database file is of server %s, but the record's server of this node is %q. %s", s.File.ServerID, me.ServerID, aside)
	case !own || me.Address != s.Address:
		return refuse("the database file is of address %s and the record's is %s, but this node has %s: a member cannot change its address. %s",
			s.File.Address, me.Address, s.Address, aside)
	case me.Lost:
		me.Lost = false
		return Step{Action: WriteRecord, Record: s.Record.with(me), Reason: "the database file is back"}
	case me.Raft != by:
		me.Raft = by
		return Step{Action: WriteRecord, Record: s.Record.with(me), Reason: "how the others reach this member"}
	case s.Draft.Form != NoFile:
		return Step{Action: MoveDraft, Reason: "there is a database already"}
	}
	return Step{Action: Serve}
}

// lost decides for a member whose server had a file that is gone.
func (s Situation) lost(me Member) Step {
	if !me.Lost {
		me.Lost = true
		return Step{Action: WriteRecord, Record: s.Record.with(me), Reason: "the database file of server " + me.ServerID + " is lost"}
	}
	if s.Record.Lost() {
		// No member creates a new cluster on its own: a disk that is only not mounted may still hold all data.
		return Step{
			Action: Wait, Tell: true, Reason: "every member has lost its database file of cluster " + s.Record.ClusterID +
				": put one back, or make the databases anew with: atoll ovn rebuild",
		}
	}
	return Step{Action: Wait, Reason: "the database file is lost: waiting until the others, with a quorum, have removed server " + me.ServerID}
}

// enter decides for a node that is no member.
func (s Situation) enter() Step {
	var names []string
	for _, m := range s.Record.Members {
		if m.Address == s.Address {
			return Step{Action: Refuse, Reason: fmt.Sprintf("node %s is a member with this node's address %s", m.Node, m.Address)}
		}
		names = append(names, m.Node)
	}
	if len(names) >= s.Size {
		return Step{
			Action: Refuse, Reason: fmt.Sprintf("the cluster has its %d members (%s): one leaves it when its Node object is deleted", s.Size,
				strings.Join(names, ", ")),
		}
	}
	to, why := s.Record, "this node becomes a member"
	if len(names) == 0 && s.Record.ClusterID == "" {
		to.Bootstrap, why = s.Node, "this node makes the cluster"
	}
	return Step{Action: WriteRecord, Record: to.with(Member{Node: s.Node, Address: s.Address}), Reason: why}
}

// bootstrap decides for a member of a cluster that does not exist yet.
func (s Situation) bootstrap(me Member) Step {
	switch {
	case s.Record.Bootstrap != s.Node && s.Abandoned:
		to := s.Record.without(s.Record.Bootstrap)
		to.Bootstrap = s.Node
		return Step{Action: WriteRecord, Record: to, Reason: "node " + s.Record.Bootstrap + ", which was to make the cluster, is gone"}
	case s.Record.Bootstrap != s.Node:
		return Step{Action: Wait, Reason: "waiting until node " + s.Record.Bootstrap + " has made the cluster"}
	case s.Draft.Form == NoFile:
		return Step{Action: CreateDraft}
	}
	to := s.Record
	to.ClusterID, me.ServerID = s.Draft.ClusterID, s.Draft.ServerID
	me.Raft, _ = s.raft(s.Draft.Address)
	return Step{Action: WriteRecord, Record: to.with(me), Reason: "the cluster's id"}
}
