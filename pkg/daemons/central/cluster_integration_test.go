//go:build integration

package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

const namespace = "atoll-system"

// memberNames is before a node's name in a member's certificate (certs.MemberPrefix).
const memberNames = "atoll-ovn-central:"

// patience bounds each wait, on a machine that is busy with other things.
const patience = 90 * time.Second

// lab is a switch in a network namespace, nodes in others behind it, and an API server that all reach.
type lab struct {
	t       *testing.T
	dir     string
	program string
	store   Store
	ovn     string
	hub     string
	// central and node are the two CAs.
	central, node authority
	server        *apiserver.Server
	// door is where nodes reach it.
	door *door
	api  string
	// starter is a thread that lives as long as the lab: keepers end with the thread that started them, and those that were in a
	// namespace end.
	starter chan func()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	prefix := os.Getenv("ATOLL_OVN_PREFIX")
	if prefix == "" {
		t.Fatal("ATOLL_OVN_PREFIX is not set: it must name a prefix with OVN's programs (make sets it)")
	}
	dir, err := os.MkdirTemp("", "central")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lab{
		t: t, dir: dir, program: filepath.Join(dir, "atoll-ovn"), ovn: prefix, hub: fmt.Sprintf("acen%d", os.Getpid()),
		starter: make(chan func()),
	}
	t.Cleanup(func() { close(l.starter) })
	go func() {
		runtime.LockOSThread()
		for start := range l.starter {
			start()
		}
	}()
	out, err := exec.Command("go", "build", "-o", l.program, "github.com/atoll-net/atoll/cmd/atoll-ovn").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	l.central, l.node = newAuthority(t, "central"), newAuthority(t, "node")
	l.namespace(l.hub)
	l.inside(l.hub, func() {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hub"}}
		must(t, netlink.LinkAdd(bridge))
		must(t, netlink.AddrAdd(bridge, address("10.71.0.1/24")))
		must(t, netlink.LinkSetUp(bridge))
	})
	server := apiserver.Start(t)
	client, err := kubernetes.NewForConfig(server.RESTConfig())
	must(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{})
	must(t, err)
	must(t, server.Apply(t.Context(), filepath.Join("..", "..", "..", "dist", "ovn-central")))
	l.store = Store{Client: client, Namespace: namespace}
	// The API server is on this machine's loopback, which namespaces do not reach.
	to := strings.TrimPrefix(server.RESTConfig().Host, "https://")
	l.door = &door{to: to, open: map[net.Conn]bool{}}
	l.openDoor()
	t.Cleanup(l.door.close)
	l.server = server
	l.api = l.kubeconfig("kubeconfig", server.As("system:serviceaccount:atoll-system:atoll-ovn-central"))
	return l
}

// kubeconfig writes a file by which somebody in a namespace reaches the API server.
func (l *lab) kubeconfig(name string, as *rest.Config) string {
	l.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{
		Server: "https://10.71.0.1:6443", TLSServerName: "127.0.0.1", CertificateAuthority: as.CAFile,
	}
	config.AuthInfos["lab"] = &clientcmdapi.AuthInfo{
		Token: as.BearerToken, Impersonate: as.Impersonate.UserName, ImpersonateGroups: as.Impersonate.Groups,
	}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	path := filepath.Join(l.dir, name)
	must(l.t, clientcmd.WriteToFile(*config, path))
	return path
}

// door carries connections from the nodes' switch to the API server, while it is open.
type door struct {
	to string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

func (l *lab) openDoor() {
	l.inside(l.hub, func() {
		listener, err := net.Listen("tcp", "10.71.0.1:6443")
		must(l.t, err)
		l.door.mu.Lock()
		l.door.listener = listener
		l.door.mu.Unlock()
		go l.door.relay(listener) // ends with the listener
	})
}

// close ends what goes through it, too.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.listener.Close()
	for conn := range d.open {
		_ = conn.Close()
	}
}

func (d *door) relay(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.open[conn] = true
		d.mu.Unlock()
		go func() {
			defer func() {
				_ = conn.Close()
				d.mu.Lock()
				delete(d.open, conn)
				d.mu.Unlock()
			}()
			server, err := net.Dial("tcp", d.to)
			if err != nil {
				return
			}
			defer server.Close()
			go func() {
				_, _ = io.Copy(server, conn)
				_ = server.Close()
			}()
			_, _ = io.Copy(conn, server)
		}()
	}
}

func address(text string) *netlink.Addr {
	a, err := netlink.ParseAddr(text)
	if err != nil {
		panic(err)
	}
	return a
}

// namespace makes a named network namespace for the test's time.
func (l *lab) namespace(name string) {
	l.t.Helper()
	done := make(chan error)
	go func() {
		// A thread that made a namespace is in it, and ends with this goroutine.
		runtime.LockOSThread()
		ns, err := netns.NewNamed(name)
		if err == nil {
			err = ns.Close()
		}
		done <- err
	}()
	must(l.t, <-done)
	l.t.Cleanup(func() { _ = netns.DeleteNamed(name) })
	l.inside(name, func() {
		lo, err := netlink.LinkByName("lo")
		must(l.t, err)
		must(l.t, netlink.LinkSetUp(lo))
	})
}

// inside calls f in a network namespace.
func (l *lab) inside(name string, f func()) {
	l.t.Helper()
	ns, err := netns.GetFromName(name)
	must(l.t, err)
	defer ns.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(ns)
		defer func() { done <- err }()
		if err == nil {
			f()
		}
	}()
	must(l.t, <-done)
}

// until waits for a condition.
func (l *lab) until(what string, met func() bool) {
	l.t.Helper()
	began := time.Now()
	err := wait.For(context.WithoutCancel(l.t.Context()), patience, func(context.Context) error {
		if !met() {
			return errors.New("it is not so")
		}
		return nil
	})
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	l.t.Logf("%6.1f s: %s", time.Since(began).Seconds(), what)
}

func (l *lab) ready(kind Kind, places ...*place) func() bool {
	return func() bool {
		for _, p := range places {
			if !p.ready(kind) {
				return false
			}
		}
		return true
	}
}

func (l *lab) leader(kind Kind, places []*place) *place {
	l.t.Helper()
	var found *place
	l.until("a leader of "+string(kind), func() bool {
		for _, p := range places {
			if p.running[string(kind)] != nil && p.leads(kind) {
				found = p
			}
		}
		return found != nil
	})
	return found
}

// record is checked on the way: never more members than nodes, and none twice.
func (l *lab) record(kind Kind) Database {
	l.t.Helper()
	d, err := l.store.Get(l.t.Context(), kind)
	must(l.t, err)
	if len(d.Members) > 3 {
		l.t.Fatalf("%d members of three nodes", len(d.Members))
	}
	return d
}

// servers are those of the cluster, as a member knows them.
func (p *place) servers(kind Kind) []Server {
	p.t.Helper()
	s, err := status(p.t.Context(), p.run(), kind)
	must(p.t, err)
	return s.Servers
}

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	certificate, err := x509.ParseCertificate(raw)
	must(t, err)
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

func (a authority) issue(t *testing.T, name string, of ...netip.Addr) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	var addresses []net.IP
	for _, a := range of {
		addresses = append(addresses, a.AsSlice())
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: addresses,
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.certificate, private.Public(), a.key)
	must(t, err)
	der, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
