//go:build integration

package inspectapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// networksOfTwo are two tenants' Networks with the same addresses. Their pods are on a node without an agent.
const networksOfTwo = `
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: atoll.dev/v1alpha1, kind: Tenant, metadata: {name: acme}, spec: {admins: [{kind: User, name: jo}]}}
---
{apiVersion: atoll.dev/v1alpha1, kind: Tenant, metadata: {name: umbrella}, spec: {}}
---
{apiVersion: atoll.dev/v1alpha1, kind: Network, metadata: {name: acme}, spec: {type: vpc, tenant: acme, subnets: [{name: front, cidrs: [10.0.0.0/24]}]}}
---
{apiVersion: atoll.dev/v1alpha1, kind: Network, metadata: {name: umbrella}, spec: {type: vpc, tenant: umbrella, subnets: [{name: front, cidrs: [10.0.0.0/24]}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: acme, labels: {atoll.dev/tenant: acme}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: umbrella, labels: {atoll.dev/tenant: umbrella}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: acme, name: jo}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: atoll-inspector}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jo}]}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: acme, name: closed}, spec: {podSelector: {}}}
---
`

func podIn(namespace, name, annotations string) string {
	return fmt.Sprintf(
		"{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: %s, annotations: {%s}}, spec: {nodeName: n1, containers: "+
			"[{name: c, image: i}]}}\n---\n", namespace, name, annotations)
}

// TestInspection: a real API server forwards requests to us and verifies our certificate. The command line prints what objects and
// databases contain, and each user sees only what RBAC allows. A client cannot claim to be another user. When the API does not
// answer, the command line says so.
func TestInspection(t *testing.T) {
	l := newLab(t, true)
	l.apply(networksOfTwo)
	l.apply(podIn("acme", "web", "") + podIn("umbrella", "web", "") + podIn("acme", "lost", `atoll.dev/nics: '[{"ip":"10.9.9.9"}]'`))
	l.run()
	t.Setenv("PATH", filepath.Dir(l.central.Program("ovn-nbctl"))+":"+os.Getenv("PATH"))
	admin := l.server.Kubeconfig()

	if have := l.kubectl("get", "--raw", "/apis/inspect.atoll.dev/v1alpha1"); !strings.Contains(have, `"networks"`) ||
		!strings.Contains(have, `"pods"`) {
		t.Errorf("discovery says %s", have)
	}
	if have := l.kubectl("get", "networks", "-o", "jsonpath={.items[0].apiVersion}"); have != "atoll.dev/v1alpha1" {
		t.Errorf("kubectl get networks means those of %s", have)
	}
	l.eventually("the Networks to be Ready, with their pods", func() error {
		status, out, trouble := l.atoll(admin, "networks")
		for _, want := range []string{
			"acme       vpc    acme       Ready   Ready    1      252    10.0.0.0/24",
			"umbrella   vpc    umbrella   Ready   Ready    1      252    10.0.0.0/24", "default    flat",
		} {
			if status != 0 || trouble != "" || !strings.Contains(squeezed(out), squeezed(want)) {
				return fmt.Errorf("status %d, %s\n%s\nwithout %s", status, trouble, out, want)
			}
		}
		return nil
	})
	tells := func(kubeconfig string, status int, args []string, want ...string) string {
		t.Helper()
		var out string
		l.eventually("atoll "+strings.Join(args, " "), func() error {
			have, text, trouble := l.atoll(kubeconfig, args...)
			out = text
			for _, w := range want {
				if !strings.Contains(squeezed(text+trouble), squeezed(w)) || have != status {
					return fmt.Errorf("status %d, want %d with %q:\n%s%s", have, status, w, text, trouble)
				}
			}
			return nil
		})
		return out
	}
	tells(admin, 0, []string{"network", "acme"}, "Ready", "Namespaces   acme", "NetworkPolicy/acme/closed", "Logical_Router acme         yes",
		"Logical_Switch acme/front   yes", "n1     1")
	tells(admin, 0, []string{"pods", "-n", "acme"}, "acme/web    acme      10.0.0.2   100.64.0.", "acme/lost   acme      -          -")
	// Nobody runs the node: the first that is missing is its face, which the kubelet reports.
	tells(admin, 1, []string{"pod", "acme/web"}, "ok        network      acme (vpc)", "ok        northbound   Logical_Switch_Port acme/web",
		"MISSING   southbound   Port_Binding acme/web is bound by no chassis",
		"MISSING   node         no atoll-agent has reported from node n1", "NetworkPolicy/acme/closed")
	tells(admin, 1, []string{"pod", "acme/lost"}, "MISSING   address", "AddressOutsideSubnet", "address 10.9.9.9 is outside of every subnet")
	tells(admin, 2, []string{"pod", "acme/none"}, "pod acme/none does not exist")
	tells(admin, 2, []string{"network", "none"}, "Network none does not exist")
	tells(admin, 1, []string{"status"}, "OVN_Northbound   unix:", "alone", "Node/n1",
		"3 Networks, 3 pods. Behind: Networks that are not Ready: 0; pods without an address: 1; ports that are not up: 2", "no controller leads")

	// An answer says so if its rows are changing, or are not applied yet.
	explain := []string{"explain", "acme/web", "outside", "--port", "80"}
	settled := func(what string) {
		t.Helper()
		l.eventually("an explanation that rests on nothing that changes, "+what, func() error {
			if _, out, _ := l.atoll(admin, explain...); !strings.Contains(out, "Stopped:") || strings.Contains(out, "Changing:") {
				return errors.New(out)
			}
			return nil
		})
	}
	sbctl := func(args ...string) {
		t.Helper()
		_, err := l.central.SBCtl(t.Context(), args...)
		l.must(err)
	}
	settled("at first")
	l.eventually("an explanation to say that rows have changed", func() error {
		l.nbctl("lsp-set-port-security", "acme/web")
		if _, out, _ := l.atoll(admin, explain...); !strings.Contains(out, "Changing: ") ||
			!strings.Contains(out, "changed within the last 5 seconds") {
			return errors.New(out)
		}
		return nil
	})
	settled("when the row is as it was")
	l.must(syscall.Kill(l.central.PID("northd"), syscall.SIGSTOP))
	l.nbctl("set", "NB_Global", ".", "nb_cfg=1000")
	tells(admin, 1, explain, "Changing: ovn-northd has not yet brought the last change into the southbound database. Ask again in a moment")
	l.must(syscall.Kill(l.central.PID("northd"), syscall.SIGCONT))
	settled("when ovn-northd has followed")
	sbctl("chassis-add", "c1", "geneve", "192.0.2.1", "--", "set", "Chassis", "c1", "hostname=n1", "--", "create", "Chassis_Private",
		"name=c1", "nb_cfg=999")
	tells(admin, 1, explain, "Changing: node n1 has not yet applied the rows of the last change. Ask again in a moment")
	sbctl("set", "Chassis_Private", "c1", "nb_cfg=1000")
	settled("when the node has applied them")
	sbctl("destroy", "Chassis_Private", "c1", "--", "chassis-del", "c1")

	tells(admin, 0, []string{"ipam"}, "acme Subnet front 10.0.0.0/24 256 3 1 252 1 pod", "umbrella Subnet front 10.0.0.0/24 256 3 1 252 1 pod",
		"- Faces - 100.64.0.0/10")
	tells(admin, 0, []string{"ipam", "acme"}, "10.0.0.2 pod acme/web Subnet n1 2", "10.0.0.1 router acme Subnet")
	tells(admin, 0, []string{"ipam", "system:cluster"}, "pod acme/web Faces n1",
		"pod umbrella/web Faces n1", "Block n1 100.64.0.0/23 512 2 2 508 2 pods")
	tells(admin, 2, []string{"ipam", "none"}, "Network none does not exist")
	// Two Networks have the same addresses, and nothing is wrong with that.
	tells(admin, 0, []string{"ipam", "check"}, "0 findings, of")
	tells(admin, 0, []string{"topology"}, "3 Networks, 2 tenants, 2 pods on 1 node", "acme (vpc, Ready): 1 pod on n1 1",
		"switch umbrella/front: 10.0.0.0/24 via 10.0.0.1, 1 pod on n1 1")
	tells(admin, 0, []string{"topology", "acme", "-o", "dot"},
		"digraph atoll {", `"acme" [label="acme\ntenant acme, vpc, Ready\nfront 10.0.0.0/24, 1 pod`)
	// An intruder adds ports to the switches of both.
	for switchOf, port := range map[string]string{"acme/front": "ghost", "umbrella/front": "spook"} {
		_, err := l.central.NBCtl(t.Context(), "lsp-add", switchOf, port, "--", "lsp-set-addresses", port, "0a:58:0a:00:00:63 10.0.0.77")
		l.must(err)
	}
	const leaked = "Leak acme 10.0.0.77 Logical_Switch_Port/ghost"
	tells(admin, 1, []string{"ipam", "check", "--settle", "1s"}, leaked, "Next: remove it: ovn-nbctl lsp-del ghost",
		"Leak umbrella 10.0.0.77 Logical_Switch_Port/spook", "2 findings")

	t.Run("flows", func(*testing.T) { l.flows(admin) })
	t.Run("a tenant's admin sees his own", func(t *testing.T) {
		jo := l.kubeconfigOf("jo")
		for kind, args := range map[string][]string{
			"ipam": {"ipam"}, "ipamcheck": {"ipam", "check", "--settle", "0s"}, "topology": {"topology"},
		} {
			status := 0
			if kind == "ipamcheck" {
				status = 1 // There is the leak.
			}
			if out := tells(jo, status, append(args, "-o", "name"), kind+"/acme\n"); out != kind+"/acme\n" {
				t.Errorf("%v: he is told of %s", args, out)
			}
		}
		tells(jo, 0, []string{"ipam", "acme"}, "10.0.0.2 pod acme/web Subnet n1")
		if out := tells(jo, 1, []string{"ipam", "check", "--settle", "0s"}, leaked, "1 finding, of"); strings.Contains(out, "umbrella") ||
			strings.Contains(out, "spook") {
			t.Errorf("of what is wrong he is told %s", out)
		}
		tells(jo, 1, []string{"ipam", "check", "acme", "--settle", "0s"}, leaked)
		tells(jo, 0, []string{"topology"}, "acme (vpc, Ready): 1 pod on n1 1")
		if status, out, trouble := l.atoll(jo, "ipam", "system:cluster"); status != 2 || out != "" || !strings.Contains(trouble, "is forbidden") {
			t.Errorf("of faces he is told %s%s", out, trouble)
		}
		if out := tells(jo, 0, []string{"networks", "-o", "name"}, "network/acme\n"); out != "network/acme\n" {
			t.Errorf("he is told of %s", out)
		}
		tells(jo, 0, []string{"network", "acme"}, "Namespaces   acme")
		tells(jo, 1, []string{"pod", "acme/web"}, "ok        address")
		// No agent runs on the node, so the tenant's pod sends nothing. About another tenant's pod, the user does not even learn whether
		// it exists.
		const unbound = "no node has bound the port of pod acme/web"
		tells(admin, 1, []string{"explain", "umbrella/web", "acme/web", "--port", "80"}, "no node has bound the port of pod umbrella/web")
		tells(admin, 1, []string{"explain", "acme/web", "outside", "--port", "80", "--raw"}, unbound, "Rows underneath:",
			"Logical_Switch_Port acme/web")
		tells(jo, 1, []string{"explain", "acme/web", "outside", "--port", "80"}, unbound, "Next: kubectl describe pod -n acme web")
		tells(jo, 2, []string{"explain", "acme/web", "outside", "--port", "80", "--raw"}, "is forbidden")
		notHis := map[string]string{}
		for _, name := range []string{"umbrella", "nobody"} {
			_, _, trouble := l.atoll(jo, "explain", "acme/web", name+"/web", "--port", "80")
			notHis[name] = strings.ReplaceAll(trouble, name, "X")
		}
		if notHis["umbrella"] != notHis["nobody"] ||
			!strings.Contains(notHis["nobody"], "you may not ask about pods and Services of namespace X") {
			t.Errorf("of what is not his he is told %q", notHis)
		}
		for _, args := range [][]string{
			{"network", "X"}, {"ipam", "X"}, {"ipam", "check", "X"}, {"topology", "X"}, {"pod", "X/web"}, {"pods", "-n", "X"},
		} {
			told := map[string]string{}
			for _, name := range []string{"umbrella", "nobody"} {
				asked := append([]string(nil), args...)
				for i := range asked {
					asked[i] = strings.ReplaceAll(asked[i], "X", name)
				}
				status, out, trouble := l.atoll(jo, asked...)
				if status != 2 || out != "" || !strings.Contains(trouble, "is forbidden") {
					t.Errorf("%v: status %d, %s%s", asked, status, out, trouble)
				}
				told[name] = strings.ReplaceAll(trouble, name, "X")
			}
			if told["umbrella"] != told["nobody"] {
				t.Errorf("%v: of what is there he is told\n%s\nof what is not\n%s", args, told["umbrella"], told["nobody"])
			}
		}
		if status, _, trouble := l.atoll(jo, "status"); status != 2 || !strings.Contains(trouble, "is forbidden") {
			t.Errorf("status: %d, %s", status, trouble)
		}
		// The control: with the right, jo sees the other tenant's objects.
		l.kubectl("create", "clusterrolebinding", "jo-sees-all", "--clusterrole=atoll-inspector", "--user=jo")
		tells(jo, 0, []string{"network", "umbrella"}, "Namespaces   umbrella")
		tells(jo, 0, []string{"networks", "-o", "name"}, "network/umbrella")
		tells(jo, 0, []string{"ipam", "umbrella"}, "pod umbrella/web")
		tells(jo, 1, []string{"ipam", "check", "--settle", "0s"}, "spook")
		tells(jo, 0, []string{"topology", "umbrella"}, "switch umbrella/front")
		l.kubectl("delete", "clusterrolebinding", "jo-sees-all")
	})
	for _, port := range []string{"ghost", "spook"} {
		_, err := l.central.NBCtl(t.Context(), "lsp-del", port)
		l.must(err)
	}
	tells(admin, 0, []string{"ipam", "check"}, "0 findings, of")
	t.Run("databases by a kubeconfig alone", l.databases)
	t.Run("nobody is believed who he says he is", func(t *testing.T) { l.directly(t) })
	t.Run("when nobody answers", func(*testing.T) {
		l.stop()
		l.available("False")
		tells(admin, 1, []string{"networks"}, "the API inspect.atoll.dev does not answer", "acme       vpc    acme       Ready")
		tells(admin, 1, []string{"ipam", "acme"}, "does not answer", "10.0.0.2 pod acme/web")
		tells(admin, 2, []string{"ipam", "check"}, "does not answer", "0 findings, of", "not all was looked at")
		tells(admin, 1, []string{"topology"}, "does not answer", "switch acme/front: 10.0.0.0/24 via 10.0.0.1, 1 pod on n1 1")
		tells(admin, 1, []string{"status"}, "the API inspect.atoll.dev does not answer", "Node/n1")
		tells(admin, 1, []string{"pod", "acme/web"}, "without OVN's databases", "?         northbound")
		tells(admin, 2, []string{"nbctl", "show"}, "connect to the northbound database: ",
			"kubectl describe apiservice v1alpha1.inspect.atoll.dev")
		tells(admin, 2, []string{"explain", "acme/web", "umbrella/web", "--port", "80"}, "does not answer", "acme/web: ", "umbrella/web: ",
			"--nb-address")
	})
}

// squeezed replaces each run of spaces by one space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// directly sends requests past the API server.
func (l *lab) directly(t *testing.T) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ask := func(change func(http.Header)) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://"+l.address+"/apis/inspect.atoll.dev/v1alpha1/networks/umbrella", nil)
		if err != nil {
			return 0, err
		}
		change(request.Header)
		answer, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	admin, err := kubernetes.NewForConfig(l.server.RESTConfig())
	l.must(err)
	token := func(account string) string {
		if _, err := admin.CoreV1().ServiceAccounts("acme").Get(t.Context(), account, meta.GetOptions{}); err != nil {
			l.kubectl("create", "serviceaccount", "-n", "acme", account)
		}
		review, err := admin.CoreV1().ServiceAccounts("acme").CreateToken(t.Context(), account, &authentication.TokenRequest{},
			meta.CreateOptions{})
		l.must(err)
		return review.Status.Token
	}
	l.kubectl("create", "clusterrolebinding", "sees-all", "--clusterrole=atoll-inspector", "--serviceaccount=acme:sees-all")
	for what, c := range map[string]struct {
		change func(http.Header)
		want   int
	}{
		"nobody": {func(http.Header) {}, http.StatusUnauthorized},
		"by headers without certificate": {
			func(h http.Header) { h.Set("X-Remote-User", "admin"); h.Set("X-Remote-Group", "system:masters") }, http.StatusUnauthorized,
		},
		"by a token of nobody":      {func(h http.Header) { h.Set("Authorization", "Bearer none") }, http.StatusUnauthorized},
		"by a token without rights": {func(h http.Header) { h.Set("Authorization", "Bearer "+token("sees-nothing")) }, http.StatusForbidden},
		"by a token with rights":    {func(h http.Header) { h.Set("Authorization", "Bearer "+token("sees-all")) }, http.StatusOK},
	} {
		l.eventually(what, func() error {
			status, err := ask(c.change)
			if err == nil && status != c.want {
				err = fmt.Errorf("status %d, want %d", status, c.want)
			}
			if errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			return err
		})
	}
}
