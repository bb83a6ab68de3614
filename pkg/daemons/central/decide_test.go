package central

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	clusterA = "b424f0c1-7c19-44b0-a5ff-b7cc33da9657"
	clusterB = "0f5dd8f4-4e7c-4d7e-9d51-3f6ac1c2a3b4"
	server1  = "30d0e2d2-6877-4bab-bd08-a51f492b0941"
	server2  = "a8de795a-1ff0-4bfb-838b-4951027e214b"
	server3  = "4a388abe-b27b-4260-9ad1-5760819c0ee5"
)

func at(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func file(cluster, server string, n byte) Header {
	return Header{Form: Clustered, ClusterID: cluster, ServerID: server, Address: raftAddress(Northbound, at(n), Relayed)}
}

// before is a file that was made before there were relays.
func before(cluster, server string, n byte) Header {
	h := file(cluster, server, n)
	h.Address = raftAddress(Northbound, at(n), Direct)
	return h
}

func member(n byte, server string) Member {
	m := Member{Node: string('a' + rune(n) - 1), Address: at(n), ServerID: server}
	if server != "" {
		m.Raft = Relayed
	}
	return m
}

// by is a record whose members are reached otherwise.
func (d Database) by(raft Raft, nodes ...string) Database {
	for _, node := range nodes {
		m, _ := d.Member(node)
		m.Raft = raft
		d = d.with(m)
	}
	return d
}

func TestDecide(t *testing.T) {
	t.Parallel()
	three := Database{ClusterID: clusterA, Bootstrap: "a", Members: []Member{member(1, server1), member(2, server2), member(3, server3)}}
	joining := Database{ClusterID: clusterA, Bootstrap: "a", Members: []Member{member(1, server1), member(2, "")}}
	begun := Database{Bootstrap: "a", Members: []Member{member(1, ""), member(2, "")}}
	lostAll := Database{ClusterID: clusterA, Bootstrap: "a", Members: []Member{
		{Node: "a", Address: at(1), ServerID: server1, Lost: true},
		{Node: "b", Address: at(2), ServerID: server2, Raft: Relayed, Lost: true},
		{Node: "c", Address: at(3), ServerID: server3, Lost: true},
	}}
	givenUp := Database{Before: []string{clusterA}, Held: true}
	begunAnew := Database{Before: []string{clusterA}, Held: true, Bootstrap: "b", Members: []Member{member(2, "")}}
	lostOne := three.with(Member{Node: "b", Address: at(2), ServerID: server2, Raft: Relayed, Lost: true})
	for name, c := range map[string]struct {
		s      Situation
		want   Action
		record Database
		says   string
	}{
		"nobody has begun": {
			s: Situation{}, want: WriteRecord, record: Database{Bootstrap: "b", Members: []Member{member(2, "")}},
		},
		"another has begun": {
			s: Situation{Record: Database{Bootstrap: "a", Members: []Member{member(1, "")}}}, want: WriteRecord, record: begun,
		},
		"another makes the cluster": {s: Situation{Record: begun}, want: Wait, says: "node a"},
		"and is gone": {
			s: Situation{Record: begun, Abandoned: true}, want: WriteRecord, record: Database{Bootstrap: "b", Members: []Member{member(2, "")}},
		},
		"we make it": {s: Situation{Node: "a", Address: at(1), Record: begun}, want: CreateDraft},
		"we made it": {
			s: Situation{Node: "a", Address: at(1), Record: begun, Draft: file(clusterA, server1, 1)}, want: WriteRecord, record: joining,
		},
		"the record has it": {
			s: Situation{Node: "a", Address: at(1), Record: joining, Draft: file(clusterA, server1, 1)}, want: Promote,
		},
		"the cluster is there":           {s: Situation{Record: joining}, want: JoinDraft},
		"a draft of a cluster not begun": {s: Situation{Record: joining, Draft: file(clusterB, server2, 2)}, want: MoveDraft},
		"a draft that was cut short":     {s: Situation{Record: joining, Draft: Header{Form: Foreign}}, want: MoveDraft},
		"a draft to join with": {
			s: Situation{Record: joining, Draft: file(clusterA, server2, 2)}, want: WriteRecord, record: joining.with(member(2, server2)),
		},
		"all fits":                    {s: Situation{Record: three, File: file(clusterA, server2, 2)}, want: Serve},
		"a file beside a record lost": {s: Situation{File: file(clusterA, server2, 2)}, want: Refuse, says: "knows no cluster"},
		"a file of another cluster":   {s: Situation{Record: three, File: file(clusterB, server2, 2)}, want: Refuse, says: clusterB},
		"a file of a server before":   {s: Situation{Record: three, File: file(clusterA, server1, 2)}, want: Refuse, says: server1},
		"a file of another address":   {s: Situation{Record: three, File: file(clusterA, server2, 9)}, want: Refuse, says: "10-0-0-9"},
		"a file of nothing":           {s: Situation{Record: three, File: Header{Form: Foreign}}, want: Refuse, says: "cannot be read"},
		"a file of a node that left": {
			s: Situation{Record: three.without("b"), File: file(clusterA, server2, 2)}, want: Refuse, says: "no member on this node",
		},
		"an empty disk":                  {s: Situation{Record: three}, want: WriteRecord, record: lostOne},
		"every disk is empty":            {s: Situation{Record: lostAll}, want: Wait, says: "atoll ovn rebuild"},
		"given up, and nobody has begun": {s: Situation{Record: givenUp}, want: WriteRecord, record: begunAnew},
		"a file of a cluster given up":   {s: Situation{Record: givenUp, File: file(clusterA, server2, 2)}, want: MoveFile, says: clusterA},
		"a draft of a cluster given up":  {s: Situation{Record: begunAnew, Draft: file(clusterA, server2, 2)}, want: MoveDraft, says: clusterA},
		"given up, another made it": {
			s: Situation{
				Record: Database{ClusterID: clusterB, Before: []string{clusterA}, Members: []Member{member(1, server1)}}, File: file(clusterA, server2,
					2),
			}, want: MoveFile,
		},
		"an empty disk, recorded": {s: Situation{Record: lostOne}, want: Wait, says: server2},
		"the disk is back":        {s: Situation{Record: lostOne, File: file(clusterA, server2, 2)}, want: WriteRecord, record: three},
		"the only disk is empty": {
			s: Situation{Record: Database{ClusterID: clusterA, Bootstrap: "b", Members: []Member{member(2, server2)}}}, want: WriteRecord,
			record: Database{
				ClusterID: clusterA, Bootstrap: "b", Members: []Member{{Node: "b", Address: at(2), ServerID: server2, Raft: Relayed, Lost: true}},
			},
		},
		"the only disk is empty, recorded": {
			s: Situation{
				Record: Database{
					ClusterID: clusterA, Bootstrap: "b", Members: []Member{{Node: "b", Address: at(2), ServerID: server2, Raft: Relayed, Lost: true}},
				},
			}, want: Wait, says: "atoll ovn rebuild",
		},
		// Files of before there were relays.
		"a file of before": {
			s: Situation{Record: three.by("", "a", "b", "c"), File: before(clusterA, server2, 2)}, want: WriteRecord,
			record: three.by("", "a", "c").by(Direct, "b"),
		},
		"a file of before, recorded": {
			s: Situation{Record: three.by(Direct, "a", "b", "c"), File: before(clusterA, server2, 2)}, want: Serve,
		},
		"a leader has it join anew": {
			s: Situation{Record: lostOne.by(Direct, "a", "b", "c"), File: before(clusterA, server2, 2)}, want: MoveFile, says: "joins anew",
		},
		"the others have removed it": {
			s: Situation{Record: three.with(member(2, "")), File: before(clusterA, server2, 2)}, want: MoveFile, says: "joins anew",
		},
		"a disk of before is back, another has no relay": {
			s: Situation{Record: lostOne.by("", "c").by(Direct, "b"), File: before(clusterA, server2, 2)}, want: WriteRecord,
			record: three.by("", "c").by(Direct, "b"),
		},
		"a disk of before is back, others are lost": {
			s:    Situation{Record: lostAll.by(Direct, "b"), File: before(clusterA, server2, 2)},
			want: WriteRecord, record: lostAll.with(Member{Node: "b", Address: at(2), ServerID: server2, Raft: Direct}),
		},
		"a file of relays that was removed": {
			s: Situation{Record: three.with(member(2, "")), File: file(clusterA, server2, 2)}, want: Refuse, says: server2,
		},
		"a file of before, of a cluster alone": {
			s: Situation{
				Record: Database{ClusterID: clusterA, Bootstrap: "b", Members: []Member{member(2, server2)}}.by(Direct, "b"), File: before(clusterA,
					server2, 2),
			}, want: Serve,
		},
		"another has no relays": {
			s: Situation{Record: three.with(member(2, "")).by("", "a"), Draft: file(clusterA, server2, 2)}, want: MoveDraft,
		},
		"and a draft for it": {
			s: Situation{Record: three.with(member(2, "")).by("", "a"), Draft: before(clusterA, server2, 2)}, want: WriteRecord,
			record: three.by("", "a").by(Direct, "b"),
		},
		"a fourth node":                  {s: Situation{Node: "d", Address: at(4), Record: three}, want: Refuse, says: "3 members"},
		"a node with a member's address": {s: Situation{Node: "d", Address: at(2), Record: joining}, want: Refuse, says: "node b"},
		"another address before it joined": {
			s: Situation{Address: at(7), Record: joining}, want: WriteRecord, record: joining.with(Member{Node: "b", Address: at(7)}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.s
			s.Kind, s.Size = Northbound, 3
			if s.Node == "" {
				s.Node = "b"
			}
			if !s.Address.IsValid() {
				s.Address = at(2)
			}
			got := Decide(s)
			if got.Action != c.want || !strings.Contains(got.Reason, c.says) {
				t.Fatalf("action %d, %q; want %d, %q", got.Action, got.Reason, c.want, c.says)
			}
			if c.want == WriteRecord {
				if !got.Record.equal(c.record) {
					t.Errorf("writes %+v, want %+v", got.Record, c.record)
				}
				if err := got.Record.validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRecordIsRead(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]string{
		`{"clusterID": "x"}`:                     "no UUID",
		`{"members": [{"node": "a"}]}`:           "no IP address",
		`{"members": [{"address": "10.0.0.1"}]}`: "no node",
		`{"members": [{"node":"a","address":"10.0.0.1"},{"node":"a","address":"10.0.0.2"}]}`: "twice",
		`{"members": [{"node":"a","address":"10.0.0.1"},{"node":"b","address":"10.0.0.1"}]}`: "two members",
		`{`: "read record",
	} {
		if _, err := ParseDatabase(text); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %s", text, err, wrong)
		}
	}
	d, err := ParseDatabase(`{"members": [{"node":"b","address":"fd00::2"},{"node":"a","address":"10.0.0.1"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Remotes(6641), "ssl:10.0.0.1:6641,ssl:[fd00::2]:6641"; got != want {
		t.Errorf("remotes %s, want %s", got, want)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const text = `30d0
Name: OVN_Northbound
Cluster ID: b424 (b424f0c1-7c19-44b0-a5ff-b7cc33da9657)
Server ID: 30d0 (30d0e2d2-6877-4bab-bd08-a51f492b0941)
Address: ssl:10.0.0.1:6643
Status: cluster member
Role: leader
Term: 2
Leader: self
Vote: self

Election timer: 4000
Log: [2, 9]
Entries not yet committed: 2
Entries not yet applied: 2
Connections: <-a8de ->a8de
Servers:
    a8de (a8de at ssl:10.0.0.2:6643) next_index=6 match_index=5 last msg 1309 ms ago
    30d0 (30d0 at ssl:10.0.0.1:6643) (self) next_index=3 match_index=5
`
	s, err := ParseStatus(text)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Leads() || s.Ready() != nil || s.ElectionTimer != 4*time.Second || len(s.Servers) != 2 ||
		!s.has(Northbound, Member{Address: at(2), ServerID: server2}) || s.has(Northbound, Member{Address: at(2), ServerID: server3}) ||
		s.has(Northbound, Member{Address: at(2), ServerID: server2, Raft: Relayed}) || !s.hearsAll() ||
		s.Servers[0].Heard != 1309*time.Millisecond || !s.Servers[1].Self {
		t.Errorf("read %+v", s)
	}
	if !s.committed(7) || s.committed(8) {
		t.Errorf("of 7 entries and two not yet committed, committed are those before %d less %d", s.LogEnd, s.Uncommitted)
	}
	if s, err := ParseStatus(strings.Replace(text, "timer: 4000", "timer: 4000 (changing to 8000)", 1)); err != nil ||
		s.ElectionTimer != 4*time.Second {
		t.Errorf("while it changes, the election timer is %v, %v", s.ElectionTimer, err)
	}
	for was, becomes := range map[string]string{"Status: cluster member": "Status: joining cluster", "Leader: self": "Leader: unknown"} {
		s, err := ParseStatus(strings.Replace(text, was, becomes, 1))
		if err != nil || s.Ready() == nil {
			t.Errorf("%s: ready, %v", becomes, err)
		}
	}
	if _, err := ParseStatus("no such database"); err == nil {
		t.Error("an answer without a status is taken")
	}
}

// TestCompactionIsStaggered lets three members run for a week: each compacts once a day, and no two in the same hour.
func TestCompactionIsStaggered(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	last, times := [3]time.Time{begin, begin, begin}, [3]int{}
	for hour := range 7 * 24 {
		now := begin.Add(time.Duration(hour) * time.Hour)
		var due []int
		for place := range 3 {
			if compactionDue(now, last[place], 24*time.Hour, place, 3) {
				due, last[place] = append(due, place), now
				times[place]++
			}
		}
		if len(due) > 1 {
			t.Errorf("%v compact at %v", due, now)
		}
	}
	if slices.Min(times[:]) < 6 || slices.Max(times[:]) > 7 {
		t.Errorf("compacted %v times in a week", times)
	}
}

func TestNewerVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"20.41.0", "20.40.1", true}, {"7.3.0", "7.10.0", false}, {"7.3.0", "7.3.0", false}} {
		if got, err := newerVersion(c.a, c.b); err != nil || got != c.want {
			t.Errorf("%s newer than %s: %v, %v", c.a, c.b, got, err)
		}
	}
	if _, err := newerVersion("7", "x"); err == nil {
		t.Error("x is a version")
	}
}
