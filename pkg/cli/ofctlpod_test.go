package cli

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// switchOf says what an OVS database has: bridge br-int with ports of OpenFlow numbers from 5 on, each as "POD UID".
func switchOf(ports ...string) string {
	var names, made, interfaces []string
	for i, p := range ports {
		pod, uid, _ := strings.Cut(p, " ")
		port, made1, number := fmt.Sprintf("00000000-0000-4000-8000-0000000000a%d", i), fmt.Sprintf("00000000-0000-4000-8000-0000000000b%d",
			i), strconv.Itoa(5+i)
		names = append(names, `["uuid","`+port+`"]`)
		made = append(made, `{"_uuid":["uuid","`+port+`"],"name":"at`+number+`","interfaces":["uuid","`+made1+`"]}`)
		interfaces = append(interfaces, `{"_uuid":["uuid","`+made1+`"],"name":"at`+number+`","type":"","ofport":`+number+
			`,"external_ids":["map",[["atoll.dev/pod","`+pod+`"],["iface-id","`+pod+`"],["iface-id-ver","`+uid+`"]]],"error":["set",[]]}`)
	}
	return `{"id":1,"error":null,"result":[{"rows":[{"name":"br-int","ports":["set",[` + strings.Join(names, ",") + `]]}]},{"rows":[` +
		strings.Join(made, ",") + `]},{"rows":[` + strings.Join(interfaces, ",") + `]}]}`
}

// TestOfctlOfAPod: of flows and ports what concerns the pod's ports is printed as it is, for each of its interfaces; others' are
// not, though they have its name, its key on another switch, or a number that begins alike. The control is --all, which prints
// all.
func TestOfctlOfAPod(t *testing.T) {
	// Ports 5 and 9 are the pod's: key 2 of switch 3, and key 1 of switch 7. 6 is another tenant's, with the same key; 7 an earlier
	// pod's of the same name, 8 a neighbour's.
	answer := switchOf("red/web-0 uid-of-web-0", "blue/web-0 uid-of-blue", "red/web-0 uid-of-earlier", "red/web-1 uid-of-web-1",
		"red/web-0 uid-of-web-0")
	const head = "NXST_FLOW reply (xid=0x8):\n"
	flows := []struct {
		kept bool
		flow string
	}{
		{
			true,
			"table=0, n_packets=7, n_bytes=686, priority=100,in_port=5 " +
				"actions=load:0x1->NXM_NX_REG13[],load:0x3->OXM_OF_METADATA[],load:0x2->NXM_NX_REG14[],resubmit(,8)",
		},
		{true, `table=0, n_packets=7, n_bytes=686, priority=100,in_port="at9" actions=set_field:0x7->metadata,set_field:0x1->reg14,resubmit(,8)`},
		{
			false,
			"table=0, n_packets=7, n_bytes=686, priority=100,in_port=6 actions=load:0x5->OXM_OF_METADATA[],load:0x2->NXM_NX_REG14[],resubmit(,8)",
		},
		{
			false,
			"table=0, n_packets=7, n_bytes=686, priority=100,in_port=55 actions=load:0x3->OXM_OF_METADATA[],load:0x9->NXM_NX_REG14[],resubmit(,8)",
		},
		{false, "table=0, n_packets=0, n_bytes=0, priority=0 actions=drop"},
		{true, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x2,metadata=0x3,dl_src=0a:00:00:00:00:05 actions=resubmit(,9)"},
		{false, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x8,metadata=0x3 actions=resubmit(,9)"},
		{false, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x2,metadata=0x5 actions=resubmit(,9)"},
		{false, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x2,metadata=0x33 actions=resubmit(,9)"},
		{true, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x1,metadata=0x7 actions=resubmit(,9)"},
		{false, "table=8, n_packets=0, n_bytes=0, priority=50,reg14=0x1,metadata=0x3 actions=resubmit(,9)"},
		{true, "table=9, n_packets=0, n_bytes=0, idle_timeout=10, ip,metadata=0x3,nw_dst=10.0.0.3 actions=resubmit(,10)"},
		{false, "table=9, n_packets=0, n_bytes=0, priority=0,metadata=0x5 actions=resubmit(,10)"},
		{true, "table=9, n_packets=0, n_bytes=0, priority=0,metadata=0x1/0x1 actions=resubmit(,10)"},
		{false, "table=9, n_packets=0, n_bytes=0, priority=0,metadata=0x8/0xc actions=clone(ct_clear,output:55)"},
		{true, "table=40, n_packets=0, n_bytes=0, priority=100,reg15=0x8000,metadata=0x3 actions=load:0x8->NXM_NX_REG15[],resubmit(,41)"},
		{false, "table=40, n_packets=0, n_bytes=0, priority=100,reg14=0x8,reg15=0x8000,metadata=0x3 actions=drop"},
		{true, "table=40, n_packets=0, n_bytes=0, priority=100,reg14=0x8,reg15=0x2,metadata=0x3 actions=drop"},
		{false, "table=40, n_packets=0, n_bytes=0, priority=100,reg15=0x8,metadata=0x3 actions=resubmit(,41)"},
		{true, "table=65, n_packets=0, n_bytes=0, priority=100,reg15=0x2,metadata=0x3 actions=output:5"},
		{true, `table=65, n_packets=0, n_bytes=0, priority=100,reg15=0x1,metadata=0x99 actions=clone(ct_clear,output:"at9")`},
		{true, "table=65, n_packets=0, n_bytes=0, in_port=6 actions=output(port=5,max_len=64)"},
		{false, "table=65, n_packets=0, n_bytes=0, priority=100,reg15=0x2,metadata=0x5 actions=output:6"},
		{false, "table=66, n_packets=0, n_bytes=0, priority=100,ip,nw_dst=10.0.0.2 actions=resubmit(5,9),load:0x5->NXM_NX_REG0[]"},
	}
	all, kept := head, head
	first := ""
	for _, f := range flows {
		line := " cookie=0x8a3c1f2e, duration=12.5s, " + f.flow + "\n"
		all += line
		if f.kept {
			kept += line
		}
		if strings.Contains(f.flow, "->reg14") || strings.Contains(f.flow, "in_port=5 ") {
			first += line
		}
	}
	const ports = `OFPST_PORT reply (xid=0x2): 3 ports
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=4, errs=0, coll=0
  port  5: rx pkts=18, bytes=1348, drop=0, errs=1, frame=0, over=0, crc=0
           tx pkts=20, bytes=1400, drop=0, errs=0, coll=0
  port  55: rx pkts=19, bytes=1348, drop=0, errs=1, frame=0, over=0, crc=0
           tx pkts=21, bytes=1400, drop=0, errs=0, coll=0
`
	const ours = `OFPST_PORT reply (xid=0x2): 3 ports
  port  5: rx pkts=18, bytes=1348, drop=0, errs=1, frame=0, over=0, crc=0
           tx pkts=20, bytes=1400, drop=0, errs=0, coll=0
`
	const described = ` 5(at5): addr:0a:00:00:00:00:01
     config:     0
 6(at6): addr:0a:00:00:00:00:02
     config:     0
 LOCAL(br-int): addr:0a:00:00:00:00:03
     config:     PORT_DOWN
`
	var f *front
	f = newNode(t, func(request string) string {
		if strings.Contains(f.asked, "socket=database") {
			return answer
		}
		return request
	})
	k := kubeconfig(t, f.URL)
	run := func(args ...string) (int, string, string) {
		return runAtoll(t, "", append([]string{"ofctl", "--kubeconfig", k}, args...)...)
	}
	// Each port is asked for by itself; what is asked for in another version of OpenFlow is asked for in that.
	shows := func(printed string) {
		program(t, "ovs-ofctl", `case "$*" in
*table=0,in_port=5|*table=0,in_port=9) case "$*" in "-O OpenFlow13 "*|dump-flows*) ;; *) echo "asked was $*" >&2; exit 1;; esac
/bin/cat << 'END'
`+first+`END
exit ;;
esac
/bin/cat << 'END'
`+printed+"END\n")
	}
	shows(all)
	for _, c := range []struct{ args, want, says string }{
		{
			"--pod red/web-0 -O OpenFlow13 dump-flows br-int", kept,
			"11 of 24 flows concern pod red/web-0, on port 5 (at5), 9 (at9) of br-int (metadata=0x3, reg14 or reg15=0x2; metadata=0x7, reg14 or " +
				"reg15=0x1); --all prints all of the bridge",
		},
		{"--pod red/web-0 --all dump-flows br-int", all, ""},
		{"--node n2 dump-flows br-int", all, ""},
		{"--pod red/web-0 dump-groups br-int", all, ""},
	} {
		status, out, problems := run(strings.Fields(c.args)...)
		if diff := cmp.Diff(c.want, out); status != 0 || diff != "" || strings.TrimSpace(strings.TrimPrefix(problems, "atoll: ")) != c.says {
			t.Errorf("%s: status %d: %s\n(-want +got)\n%s", c.args, status, problems, diff)
		}
	}
	if status, out, problems := run("--pod", "red/web-0", "-o", "json", "dump-flows",
		"br-int"); status != 0 || strings.Count(out, `"table"`) != 11 {
		t.Errorf("for programs: status %d, %s%s", status, out, problems)
	}
	shows(ports)
	if status, out, problems := run("--pod", "red/web-0", "dump-ports",
		"br-int"); status != 0 || out != ours || !strings.Contains(problems, "1 of 3 ports concern pod red/web-0") {
		t.Errorf("ports: status %d, %s%s", status, out, problems)
	}
	if status, out, _ := run("--pod", "red/web-0", "-o", "json", "dump-ports", "br-int"); status != 0 || strings.Count(out, `"PortID"`) != 1 {
		t.Errorf("ports for programs: status %d, %s", status, out)
	}
	shows(described)
	if status, out, _ := run("--pod", "red/web-0", "dump-ports-desc",
		"br-int"); status != 0 || out != " 5(at5): addr:0a:00:00:00:00:01\n     config:     0\n" {
		t.Errorf("ports described: status %d, %s", status, out)
	}

	// Where nothing of the pod is there, all is not shown instead.
	shows(all)
	first, answer = "", switchOf("red/web-0 uid-of-web-0")
	shows(all)
	if status, out, problems := run("--pod", "red/web-0", "dump-flows", "br-int"); status != 0 || strings.Count(out, "actions=") != 3 ||
		!strings.Contains(problems, "No flow takes packets in there") {
		t.Errorf("a port that OVN has not bound: status %d, %s%s", status, out, problems)
	}
	answer = switchOf("red/web-0 uid-of-earlier")
	if status, out, problems := run("--pod", "red/web-0", "dump-flows", "br-int"); status != statusFailed || out != "" ||
		!strings.Contains(problems, "pod red/web-0 has no port on bridge br-int of node n2") {
		t.Errorf("a pod without ports: status %d, %s%s", status, out, problems)
	}
}

// TestKeptLines: a line is judged as a whole, however it is written, and the last one too.
func TestKeptLines(t *testing.T) {
	t.Parallel()
	const text = "head\n table=0, in_port=5 actions=drop\n table=0, in_port=6 actions=drop\n table=1, in_port=5 actions=drop"
	const want = "head\n table=0, in_port=5 actions=drop\n table=1, in_port=5 actions=drop"
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		k := kept{podPorts: &podPorts{names: []string{"5", "at5"}}, command: dumpFlows, to: &out}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := k.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := k.flush(); err != nil || out.String() != want || k.shown != 2 || k.all != 3 {
			t.Errorf("by %d: %v: %q", size, err, out.String())
		}
	}
}
