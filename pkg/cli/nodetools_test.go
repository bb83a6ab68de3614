package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// newNode is an API server that knows pod red/web-0, which is on n2; a connection to a node answers what it is sent by say. asked
// is the last one's path with its query.
func newNode(t *testing.T, say func(request string) string) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pod, asks := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/red/pods/"); asks {
			w.Header().Set("Content-Type", "application/json")
			node := map[string]string{"web-0": "n2"}[pod]
			_, _ = io.WriteString(w,
				`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"red","name":"`+pod+`","uid":"uid-of-`+pod+`"},"spec":{"nodeName":"`+node+
					`"}}`)
			return
		}
		f.asked = r.URL.RequestURI()
		websocket.Server{Handshake: func(
			c *websocket.Config, _ *http.Request,
		) error {
			c.Protocol = []string{api.NodeProtocol}
			return nil
		}, Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			request := make([]byte, 1<<16)
			for {
				n, err := ws.Read(request)
				if err != nil {
					return
				}
				if _, err := io.WriteString(ws, say(string(request[:n]))); err != nil {
					return
				}
			}
		}}.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// TestAppctl: the command goes to the daemon of the node that was named, or that a pod is on, and what it says is printed; a
// terminal is told nothing that it would do.
func TestAppctl(t *testing.T) {
	t.Parallel()
	var sent string
	f := newNode(t, func(request string) string {
		sent = strings.TrimSpace(request)
		if strings.Contains(request, "exit") {
			return `{"id":0,"result":null,"error":"exit: this connection only reads\u001b[2J\n"}`
		}
		return `{"id":0,"result":"a\tb\nport \u001b[31mred\n","error":null}`
	})
	k := kubeconfig(t, f.URL)
	for _, c := range []struct {
		args, asked, sent string
		status            int
		out, problems     string
	}{
		{
			"appctl --node n1 dpctl/dump-flows -m --names", "n1/proxy?socket=ovs-vswitchd",
			`{"id":0,"method":"dpctl/dump-flows","params":["-m","--names"]}`, 0, "a\tb\nport ?[31mred\n", "",
		},
		{
			"appctl --pod red/web-0 -t ovn-controller --write ct-zone-list", "n2/proxy?socket=ovn-controller&write=true",
			`{"id":0,"method":"ct-zone-list","params":[]}`, 0, "a\tb\nport ?[31mred\n", "",
		},
		{
			"appctl --node n1 exit", "n1/proxy?socket=ovs-vswitchd", `{"id":0,"method":"exit","params":[]}`, 2, "",
			"atoll: appctl: ovs-vswitchd on node n1: exit: this connection only reads?[2J",
		},
		{
			"appctl --node n1 -t sshd version", "", "", 2, "",
			`atoll: appctl: --target: "sshd" is none of ovs-vswitchd, ovn-controller, ovsdb-server`,
		},
		{"appctl version", "", "", 2, "", "atoll: appctl: name a node with --node, or a pod on it with --pod"},
		{"appctl --node n1 --pod red/web-0 version", "", "", 2, "", "atoll: appctl: name a node with --node, or a pod on it with --pod"},
		{"appctl --pod red/late version", "", "", 2, "", "atoll: appctl: pod red/late has no node yet. Next: atoll pod red/late"},
		{"appctl --pod web-0 version", "", "", 2, "", `atoll: appctl: --pod: pod "web-0": write NAMESPACE/NAME`},
	} {
		f.asked, sent = "", ""
		words := strings.Fields(c.args)
		status, out, problems := runAtoll(t, "", append([]string{words[0], "--kubeconfig", k}, words[1:]...)...)
		if status != c.status || out != c.out || problems != c.problems || sent != c.sent ||
			strings.TrimPrefix(f.asked, "/apis/inspect.atoll.dev/v1alpha1/nodes/") != c.asked {
			t.Errorf("%s: status %d, %q, %q\nasked was %s, sent %s", c.args, status, out, problems, f.asked, sent)
		}
	}
}

// TestOfctlRunsTheProgram: with its arguments as they are, in a directory where the bridge's name is a socket, and its own exit status.
func TestOfctlRunsTheProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("OVS_RUNDIR", "/run/elsewhere")
	program(t, "ovs-ofctl", `
echo "arg $*"
[ -S "$OVS_RUNDIR/br-int.mgmt" ] && echo "a socket"
/bin/ls "$OVS_RUNDIR"
echo "OFPT_ERROR (xid=0x4): OFPBRC_EPERM" >&2
exit 1
`)
	f := newNode(t, func(request string) string { return request })
	k := kubeconfig(t, f.URL)
	status, out, problems := runAtoll(t, "", "ofctl", "--node", "n1", "--kubeconfig", k, "-O", "OpenFlow13", "--strict", "del-flows", "br-int",
		"table=3")
	if want := "arg -O OpenFlow13 --strict del-flows br-int table=3\na socket\nbr-int.mgmt\n"; status != 1 || out != want {
		t.Errorf("status %d, %s", status, out)
	}
	if want := "OFPT_ERROR (xid=0x4): OFPBRC_EPERM\natoll: this connection only reads. Ask for one that writes (--write)\n"; problems != want {
		t.Errorf("it says %s", problems)
	}
	if f.asked != "/apis/inspect.atoll.dev/v1alpha1/nodes/n1/proxy?bridge=br-int&socket=openflow" {
		t.Errorf("asked was %s", f.asked)
	}
	if _, _, problems := runAtoll(t, "", "ofctl", "--write", "--node", "n1", "--kubeconfig", k,
		"add-flow", "br-int", "x"); strings.Contains(problems, "only reads") {
		t.Errorf("who may write is told %s", problems)
	}
	for _, c := range []struct{ args, problem string }{
		{"--node n1 dump-flows", `"" is no bridge of the node: write COMMAND BRIDGE, such as dump-flows br-int`},
		{"--node n1 dump-flows unix:/run/x", `"unix:/run/x" is no bridge of the node`},
		{"--node n1 dump-flows ../br-int", `"../br-int" is no bridge of the node`},
		{"dump-flows br-int", "name a node with --node"},
		{"--node n1 -o yaml dump-flows br-int", `--output: "yaml" is none of table, wide, json`},
		{"--node n1 -o json show br-int", "--output is for dump-flows and dump-ports alone"},
	} {
		if status, _, problems := runAtoll(t,
			"", append([]string{"ofctl", "--kubeconfig", k}, strings.Fields(c.args)...)...); status != statusFailed ||
			!strings.Contains(problems, c.problem) {
			t.Errorf("%s: status %d, %s", c.args, status, problems)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "atoll-*")); err != nil || len(left) > 0 {
		t.Errorf("left is %v: %v", left, err)
	}
}

// TestVsctlRunsTheProgram: on a socket that leads to the node's database.
func TestVsctlRunsTheProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	program(t, "ovs-vsctl", `[ -S "${1#--db=unix:}" ] && shift && echo "arg $*"`)
	f := newNode(t, func(request string) string { return request })
	k := kubeconfig(t, f.URL)
	status, out, problems := runAtoll(t, "", "vsctl", "--pod", "red/web-0", "--write", "--kubeconfig", k, "--if-exists", "del-port", "x")
	if status != 0 || out != "arg --if-exists del-port x\n" || problems != "" ||
		f.asked != "/apis/inspect.atoll.dev/v1alpha1/nodes/n2/proxy?socket=database&write=true" {
		t.Errorf("status %d, %s%s; asked was %s", status, out, problems, f.asked)
	}
	t.Setenv("PATH", t.TempDir())
	if status, _, problems := runAtoll(t, "", "vsctl", "--node", "n1", "--kubeconfig", k, "show"); status != statusFailed ||
		!strings.Contains(problems, "ovs-vsctl is not installed here") || !strings.Contains(problems, "-o table show") {
		t.Errorf("without the program: status %d, %s", status, problems)
	}
	if status, _, problems := runAtoll(t, "", "vsctl", "--node", "n1", "-o", "table", "--kubeconfig", k, "list",
		"Port"); status != statusFailed || !strings.Contains(problems, "--output is for show alone") {
		t.Errorf("a table of something else: status %d, %s", status, problems)
	}
	for _, name := range []string{"vsctl", "ofctl"} {
		if status, out, _ := runAtoll(t, "", name, "--help"); status != 0 || !strings.Contains(out, "atoll-node-reader") {
			t.Errorf("help of %s: status %d, %s", name, status, out)
		}
	}
}

// TestVsctlShowsPorts of all bridges, with whose they are, by our own table.
func TestVsctlShowsPorts(t *testing.T) {
	t.Parallel()
	const a, b, c, d = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b", "00000000-0000-4000-8000-00000000000c",
		"00000000-0000-4000-8000-00000000000d"
	f := newNode(t, func(request string) string {
		if !strings.Contains(request, `"transact"`) {
			t.Errorf("it is asked %s", request)
		}
		return `{"id":1,"error":null,"result":[
{"rows":[{"name":"br-int","ports":["set",[["uuid","` + a + `"],["uuid","` + b + `"]]]}]},
{"rows":[{"_uuid":["uuid","` + a + `"],"name":"web","interfaces":["uuid","` + c + `"]},{"_uuid":["uuid","` + b + `"],"name":"br-int","interfaces":["uuid","` + d + `"]}]},
{"rows":[{"_uuid":["uuid","` + c + `"],"name":"web","type":"","ofport":-1,"external_ids":["map",[["atoll.dev/pod","red/web-0"],["iface-id","red/web-0"]]],"error":"could not open network device web"},
{"_uuid":["uuid","` + d + `"],"name":"br-int","type":"internal","ofport":65534,"external_ids":["map",[]],"error":["set",[]]}]}]}`
	})
	k := kubeconfig(t, f.URL)
	for _, format := range []string{formatTable, formatJSON} {
		status, out, problems := runAtoll(t, "", "vsctl", "--node", "n1", "-o", format, "--kubeconfig", k, "show")
		if status != 0 || problems != "" {
			t.Errorf("status %d: %s", status, problems)
		}
		golden(t, filepath.Join("testdata", "node", "vsctl-show."+format), out)
	}
}

// TestOfctlTables: what ovs-ofctl prints is a table, with no action or field lost.
func TestOfctlTables(t *testing.T) {
	const flows = `NXST_FLOW reply (xid=0x8):
 cookie=0x8a3c1f2e, duration=12.5s, table=8, n_packets=7, n_bytes=686, idle_age=3, priority=50,reg14=0x2,metadata=0x3,dl_src=0a:00:00:00:00:05 actions=load:0->NXM_NX_REG10[12],resubmit(,73),move:NXM_NX_REG10[12]->NXM_NX_XXREG0[111],resubmit(,9)
 cookie=0x0, duration=1s, table=0, n_packets=0, n_bytes=0, actions=NORMAL
 cookie=0x1, duration=1s, table=64, n_packets=18446744073709551615, n_bytes=0, idle_timeout=10, ip,reg15=0x1 actions=clone(ct_clear,controller(userdata=00.00.00.09),note:actions=x),dec_ttl()
 cookie=0x2, duration=1s, table=65, n_packets=1, n_bytes=2, priority=100 actions=drop
`
	const ports = `OFPST_PORT reply (xid=0x2): 2 ports
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=4, errs=0, coll=0
  port  7: rx pkts=18, bytes=1348, drop=0, errs=1, frame=0, over=0, crc=0
           tx pkts=20, bytes=1400, drop=0, errs=0, coll=0
`
	f := newNode(t, func(request string) string { return request })
	k := kubeconfig(t, f.URL)
	for command, printed := range map[string]string{dumpFlows: flows, dumpPorts: ports} {
		program(t, "ovs-ofctl", "/bin/cat << 'END'\n"+printed+"END\n")
		for _, format := range []string{formatTable, formatWide, formatJSON} {
			status, out, problems := runAtoll(t, "", "ofctl", "--node", "n1", "-o", format, "--kubeconfig", k, command, "br-int")
			if status != 0 || problems != "" {
				t.Errorf("status %d: %s", status, problems)
			}
			golden(t, filepath.Join("testdata", "node", "ofctl-"+command+"."+format), out)
		}
	}
	for _, line := range []string{"hello", "cookie=0x0, table=x, actions=drop", "table=0, priority=x actions=drop"} {
		if err := printFlowTable(strings.NewReader(line+"\n"), formatTable, io.Discard); err == nil {
			t.Errorf("%s is a flow", line)
		}
	}
}

// TestWatched: a word is seen however what is written is split.
func TestWatched(t *testing.T) {
	t.Parallel()
	const text = "an error: OFPBRC_EPERM\n"
	for i := range text {
		var out bytes.Buffer
		w := &watched{to: &out, word: []byte("OFPBRC_EPERM")}
		for _, part := range []string{text[:i], text[i:]} {
			if _, err := io.WriteString(w, part); err != nil {
				t.Fatal(err)
			}
		}
		if !w.seen || out.String() != text {
			t.Errorf("split at %d: seen %t, %s", i, w.seen, out.String())
		}
	}
	w := &watched{to: io.Discard, word: []byte("OFPBRC_EPERM")}
	if _, err := io.WriteString(w, "OFPBRC_BAD"); err != nil || w.seen {
		t.Error("another word is seen")
	}
}

// FuzzBridgeFlow: whatever a bridge has, the table is made or refused.
func FuzzBridgeFlow(f *testing.F) {
	f.Add(" cookie=0x0, duration=1s, table=0, n_packets=0, n_bytes=0, priority=1,ip actions=NORMAL")
	f.Add("actions=")
	f.Fuzz(func(t *testing.T, line string) {
		flow, err := parseBridgeFlow(line)
		if err == nil && !strings.Contains(line, flow.Match) {
			t.Errorf("%q has the match %q", line, flow.Match)
		}
	})
}
