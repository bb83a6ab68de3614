//go:build e2e

package installed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/wait"
)

// backWithin is how long a node that is admitted again may take until its pods are Ready: its member joins two databases with an
// empty file.
const backWithin = 5 * time.Minute

// thief has what is on a node: its kubelet's credential, the tokens of Atoll's pods, and the node's certificate for the
// southbound database with a connection by it.
type thief struct {
	node    string
	kubelet kubernetes.Interface
	// tokens are those of the pods of the switch and of the databases' member.
	tokens    map[string]kubernetes.Interface
	pair      tls.Certificate
	servers   []netip.AddrPort
	addresses []net.IP
	// pod is that of the node's switch.
	pod corev1.Pod
	// open is a connection that has been made before, and says what comes by it.
	open net.Conn
	says *json.Decoder
	// machine is where they are in the network.
	machine string

	mu   sync.Mutex
	said int
}

// TestAStolenNodeIsShutOut: a thief with all that is on a node, which has a member of the databases, keeps asking. Once the node
// is shut out nothing of it is worth anything: that all of it was before is the control. The other nodes go on, and a machine of
// that name may come back.
func TestAStolenNodeIsShutOut(t *testing.T) {
	nodes := env.Box.Nodes()
	node := nodes[len(nodes)-1]
	th := steal(t, node)
	for what, try := range th.tries() {
		if err := try(t.Context()); err != nil {
			t.Errorf("the control: before, the thief %s: %v", what, err)
		}
	}
	if t.Failed() {
		return
	}
	// They ask all the time, from before it begins.
	asking, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, try := range th.tries() {
		running.Go(func() {
			for asking.Err() == nil {
				_ = try(asking)
				select {
				case <-asking.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	defer func() { stop(); running.Wait() }()

	if out, err := atoll(t.Context(), "node", "shut-out", node); err == nil || !strings.Contains(out, "member of database sb") ||
		!strings.Contains(out, "Secrets that it could read") && !strings.Contains(out, "pods are deleted") {
		t.Fatalf("a plan: %v\n%s", err, out)
	}
	out, err := atoll(t.Context(), "node", "shut-out", node, "--yes")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// All of another node's goes on: whoever is refused now is not refused because nobody answers.
	other := steal(t, nodes[0])
	for what, try := range th.tries() {
		cluster.Eventually(t, cluster.Patience, "the thief no longer "+what, func(ctx context.Context) error {
			if try(ctx) == nil {
				return errors.New("they do")
			}
			return nil
		})
		cluster.Eventually(t, cluster.Patience, "with what is another node's somebody "+what, other.tries()[what])
		if try(t.Context()) == nil {
			t.Errorf("the thief %s", what)
		}
	}
	stop()
	running.Wait()
	pods, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=atoll-ovn-central",
	})
	if err != nil || len(pods.Items) != len(nodes)-1 {
		t.Fatalf("%d members are left: %v", len(pods.Items), err)
	}
	for table, column := range map[string]string{"Chassis": "name", "Chassis_Private": "name", "Encap": "chassis_name"} {
		out, err := kubectl(t.Context(), "exec", "-n", system, pods.Items[0].Name, "-c", "sb", "--", "ovn-sbctl",
			"--no-leader-only", "--bare", "--columns="+column, "list", table)
		if has := strings.Fields(out); err != nil || slices.Contains(has, node) || !slices.Contains(has, nodes[0]) {
			t.Errorf("%s has %q, %v", table, has, err)
		}
	}
	t.Run("the others go on", func(t *testing.T) { othersGoOn(t) })
	t.Run("a machine of that name comes back", func(t *testing.T) { comesBack(t, node) })
}

// othersGoOn: pods of the node are made anew elsewhere, new ones start, and who reaches whom is as expected.
func othersGoOn(t *testing.T) {
	t.Helper()
	if err := env.Clients.Wait(wait.Context(t, backWithin), []string{"red", "blue"}, []string{"red", "blue"},
		func(ready.Report) {}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 2*time.Minute, "the matrix is as expected", func(ctx context.Context) error {
		pods, err := matrix.List(ctx, env.Clients.Kube, selector)
		if err != nil {
			return err
		}
		m, err := matrix.Run(ctx, env.Exec, pods)
		if err == nil && !m.Verdict().OK() {
			err = errors.New(m.Verdict().String())
		}
		return err
	})
}

// comesBack makes the machine anew, admits it, and waits until all is as it was.
func comesBack(t *testing.T, node string) {
	t.Helper()
	if _, err := env.Box.Exec(t.Context(), node, "bash", "-c", "rm -rf /var/lib/atoll/ovn/*"); err != nil {
		t.Fatal(err)
	}
	if out, err := atoll(t.Context(), "node", "admit", node); err == nil || !strings.Contains(out, "may still be good") {
		t.Fatalf("it is admitted although its kubelet's certificate may be good: %v\n%s", err, out)
	}
	// Here the machine keeps that certificate. Nobody else has it any more.
	if out, err := atoll(t.Context(), "node", "admit", node, "--old-credentials-have-ended"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := env.Box.RebootNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, backWithin, "the node is there again", func(ctx context.Context) error {
		_, err := env.Clients.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`), metav1.PatchOptions{})
		return err
	})
	for _, set := range []string{"atoll-ovn-central", "atoll-ovn-node", "atoll-agent"} {
		cluster.Eventually(t, backWithin, "its pod of "+set+" is Ready", func(ctx context.Context) error {
			pods, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{
				LabelSelector: "app.kubernetes.io/name=" + set, FieldSelector: "spec.nodeName=" + node,
			})
			if err != nil || len(pods.Items) != 1 || !cluster.IsReady(&pods.Items[0]) {
				return fmt.Errorf("%d pods, %w", len(pods.Items), err)
			}
			return nil
		})
	}
	othersGoOn(t)
}

// steal takes what is on a node: from its disk, and out of its pods.
func steal(t *testing.T, node string) *thief {
	t.Helper()
	config, err := env.Box.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	// It leads to the same API server.
	clientOf := func(c *rest.Config) kubernetes.Interface {
		t.Helper()
		c.Dial = config.Dial
		client, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	kubelet, err := clientcmd.BuildConfigFromFlags("", filepath.Join(filepath.Dir(env.Box.Kubeconfig()), "kubelet-"+node))
	if err != nil {
		t.Fatal(err)
	}
	th := &thief{node: node, kubelet: clientOf(kubelet), tokens: map[string]kubernetes.Interface{}, machine: node}
	for _, a := range env.NodeAddresses(t, node) {
		th.addresses = append(th.addresses, net.IP(a.AsSlice()))
	}
	all, err := env.Clients.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all.Items {
		if other := n.Name; other != node {
			th.servers = append(th.servers, netip.AddrPortFrom(env.NodeAddresses(t, other)[0], 6642))
		}
	}
	for account, container := range map[string]string{"atoll-ovn-node": "ovn-controller", "atoll-ovn-central": "sb"} {
		pods, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=" + account, FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil || len(pods.Items) != 1 {
			t.Fatalf("%d pods of %s on %s: %v", len(pods.Items), account, node, err)
		}
		read := func(path string) string {
			t.Helper()
			out, err := kubectl(t.Context(), "exec", "-n", system, pods.Items[0].Name, "-c", container, "--", "cat", path)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return out
		}
		bearing := rest.AnonymousClientConfig(config)
		bearing.BearerToken = strings.TrimSpace(read("/var/run/secrets/kubernetes.io/serviceaccount/token"))
		th.tokens[account] = clientOf(bearing)
		if account == "atoll-ovn-node" {
			th.pod = pods.Items[0]
			if th.pair, err = tls.X509KeyPair([]byte(read("/run/atoll-ovn/tls.crt")), []byte(read("/run/atoll-ovn/tls.key"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if th.open, err = th.connect(t.Context(), th.servers[0]); err != nil {
		t.Fatal(err)
	}
	th.says = json.NewDecoder(th.open)
	t.Cleanup(func() { _ = th.open.Close() })
	return th
}

// tries are what a thief does, and succeeds in when the error is nil.
func (th *thief) tries() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"gets a certificate of the node": func(ctx context.Context) error {
			return th.certificate(ctx, "atoll-ovn-node", certs.SignerNode, th.node, certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth)
		},
		"gets a certificate of its member": func(ctx context.Context) error {
			return th.certificate(ctx, "atoll-ovn-central", certs.SignerCentral, certs.MemberPrefix+th.node, certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth)
		},
		"reaches the southbound database": func(ctx context.Context) error {
			var failed error
			for _, server := range th.servers {
				conn, err := th.connect(ctx, server)
				if err == nil {
					_ = conn.Close()
					return nil
				}
				failed = err
			}
			return failed
		},
		"talks to the database by the connection of before": func(context.Context) error { return th.echo(th.open, th.says) },
		"has a token made by the kubelet": func(ctx context.Context) error {
			_, err := th.kubelet.CoreV1().ServiceAccounts(system).CreateToken(ctx,
				"atoll-ovn-node", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
					BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: th.pod.Name, UID: th.pod.UID},
				}}, metav1.CreateOptions{})
			return err
		},
		"has a Node": func(ctx context.Context) error {
			_, err := th.kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: th.node}}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		},
	}
}

// certificate asks a signer, and waits for the answer.
func (th *thief) certificate(ctx context.Context, account, signer, name string, usages ...certificatesv1.KeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
	if signer == certs.SignerCentral {
		template.IPAddresses = th.addresses
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return err
	}
	who := th.tokens[account].CertificatesV1().CertificateSigningRequests()
	request, err := who.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "thief-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Usages: usages, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var refused error
	err = wait.For(ctx, wait.Patience, func(ctx context.Context) error {
		now, err := env.Clients.Kube.CertificatesV1().CertificateSigningRequests().Get(ctx, request.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
				refused = fmt.Errorf("%s: %s", c.Reason, c.Message)
				return nil
			}
		}
		if len(now.Status.Certificate) == 0 {
			return errors.New("no answer yet")
		}
		return nil
	})
	return errors.Join(err, refused)
}

// connect is a connection to a server of the southbound database on which it has answered.
func (th *thief) connect(ctx context.Context, server netip.AddrPort) (net.Conn, error) {
	plain, err := env.DialFrom(ctx, th.machine, "tcp", server.String())
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{th.pair}, InsecureSkipVerify: true})
	if err := th.echo(conn, json.NewDecoder(conn)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// echo says something to a server, and expects it back. (RFC 7047, 4.1.11.)
func (th *thief) echo(conn net.Conn, says *json.Decoder) error {
	th.mu.Lock()
	defer th.mu.Unlock()
	defer wait.Limit(conn, 10*time.Second)()
	th.said++
	id := fmt.Sprintf("thief-%d", th.said)
	if _, err := fmt.Fprintf(conn, `{"method":"echo","params":[],"id":%q}`, id); err != nil {
		return err
	}
	for {
		var m struct{ ID any }
		if err := says.Decode(&m); err != nil {
			return err
		}
		if m.ID == id {
			return nil
		}
	}
}
