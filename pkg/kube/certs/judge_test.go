package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// wish is a request as somebody may send it.
type wish struct {
	signer, user string
	token        []string
	groups       []string
	usages       []certificates.KeyUsage
	template     x509.CertificateRequest
	key          crypto.Signer
	// text is in the request's place.
	text   string
	spoil  bool
	node   string
	expire *int32
}

func (w wish) spec(t *testing.T) *certificates.CertificateSigningRequestSpec {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &w.template, w.key)
	if err != nil {
		t.Fatal(err)
	}
	if w.spoil {
		der[len(der)-1] ^= 1
	}
	text := pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der})
	if w.text != "" {
		text = []byte(w.text)
	}
	spec := &certificates.CertificateSigningRequestSpec{
		SignerName: w.signer, Username: w.user, Groups: w.groups, Usages: w.usages, Request: text, ExpirationSeconds: w.expire,
	}
	if w.token != nil {
		spec.Extra = map[string]certificates.ExtraValue{tokenNode: w.token}
	}
	return spec
}

func TestJudge(t *testing.T) {
	t.Parallel()
	nodes := map[string]*core.Node{}
	for name, address := range map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2"} {
		nodes[name] = &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}, Status: core.NodeStatus{Addresses: []core.NodeAddress{
			{Type: core.NodeInternalIP, Address: address}, {Type: core.NodeHostName, Address: name},
		}}}
	}
	p256 := newKey(t)
	generate := func(key crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	p384 := generate(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	p224 := generate(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	rsaKey := generate(rsa.GenerateKey(rand.Reader, 2048))
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	client := []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth}
	both := append(slices.Clone(client), certificates.UsageServerAuth)
	node := func(change func(*wish)) wish {
		w := wish{
			signer: SignerNode, user: "system:serviceaccount:atoll-system:atoll-ovn-node", token: []string{"n1"}, usages: client, key: p256,
			node:     "n1",
			template: x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}},
		}
		change(&w)
		return w
	}
	member := func(change func(*wish)) wish {
		return node(func(w *wish) {
			w.signer, w.user, w.usages = SignerCentral, "system:serviceaccount:atoll-system:atoll-ovn-central", both
			w.template = x509.CertificateRequest{
				Subject: pkix.Name{CommonName: "atoll-ovn-central:n1"}, IPAddresses: []net.IP{net.ParseIP("192.0.2.1")},
			}
			change(w)
		})
	}
	agent := func(change func(*wish)) wish {
		return node(func(w *wish) {
			w.signer, w.user = SignerAgent, "system:serviceaccount:atoll-system:atoll-agent"
			w.usages = []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}
			w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")}
			change(w)
		})
	}
	reader := func(change func(*wish)) wish {
		return node(func(w *wish) {
			w.signer, w.user = SignerReader, "system:serviceaccount:atoll-system:atoll-agent"
			w.template.Subject.CommonName = "atoll-agent:n1"
			change(w)
		})
	}
	inspect := func(change func(*wish)) wish {
		return node(func(w *wish) {
			w.signer, w.user = SignerInspect, "system:serviceaccount:atoll-system:atoll-inspect"
			w.template.Subject.CommonName = "atoll-inspect:n1"
			change(w)
		})
	}
	server := []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}
	inspectServer := func(change func(*wish)) wish {
		return inspect(func(w *wish) {
			w.signer, w.usages = SignerInspectServer, server
			w.template.Subject.CommonName, w.template.DNSNames = "atoll-inspect", inspectNames()
			change(w)
		})
	}
	basic, err := asn1.Marshal(struct{ CA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		wish   wish
		reason string
	}{
		"a node":                       {node(func(*wish) {}), ""},
		"a reader":                     {reader(func(*wish) {}), ""},
		"an agent as a node":           {node(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-agent" }), reasonAsker},
		"a node as a reader":           {reader(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-ovn-node" }), reasonAsker},
		"a reader as a chassis":        {reader(func(w *wish) { w.template.Subject.CommonName = "n1" }), reasonName},
		"another node's reader":        {reader(func(w *wish) { w.template.Subject.CommonName = "atoll-agent:n2" }), reasonName},
		"a reader as a member":         {reader(func(w *wish) { w.template.Subject.CommonName = "atoll-ovn-central:n1" }), reasonName},
		"a reader as a server":         {reader(func(w *wish) { w.usages = both }), reasonUsage},
		"a reader's address":           {reader(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")} }), reasonAddress},
		"a reader of no node":          {reader(func(w *wish) { w.token = nil }), reasonNode},
		"inspection":                   {inspect(func(*wish) {}), ""},
		"inspection on another node":   {inspect(func(w *wish) { w.template.Subject.CommonName = "atoll-inspect:n2" }), reasonName},
		"inspection as a controller":   {inspect(func(w *wish) { w.template.Subject.CommonName = ControllerName }), reasonName},
		"inspection as a member":       {inspect(func(w *wish) { w.template.Subject.CommonName = "atoll-ovn-central:n1" }), reasonName},
		"inspection as a database":     {inspect(func(w *wish) { w.usages = both }), reasonUsage},
		"inspection as a server alone": {inspect(func(w *wish) { w.usages = server }), reasonUsage},
		"inspection with an address": {
			inspect(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")} }), reasonAddress,
		},
		"inspection with a name":       {inspect(func(w *wish) { w.template.DNSNames = inspectNames() }), reasonName},
		"inspection of no node":        {inspect(func(w *wish) { w.token = nil }), reasonNode},
		"inspection asks for a member": {inspect(func(w *wish) { w.signer = SignerCentral }), reasonAsker},
		"inspection asks for an agent": {inspect(func(w *wish) { w.signer = SignerAgent }), reasonAsker},
		"an agent as inspection":       {inspect(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-agent" }), reasonAsker},
		"a controller as inspection": {
			inspect(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-controller" }), reasonAsker,
		},
		"a tenant as inspection":     {inspect(func(w *wish) { w.user = "system:serviceaccount:acme:atoll-inspect" }), reasonAsker},
		"inspection's server":        {inspectServer(func(*wish) {}), ""},
		"its names in another order": {inspectServer(func(w *wish) { slices.Reverse(w.template.DNSNames) }), ""},
		"a server with one name more": {
			inspectServer(func(w *wish) { w.template.DNSNames = append(w.template.DNSNames, "kubernetes.default.svc") }), reasonName,
		},
		"a server with one name less": {inspectServer(func(w *wish) { w.template.DNSNames = w.template.DNSNames[:1] }), reasonName},
		"a server with another name":  {inspectServer(func(w *wish) { w.template.DNSNames[0] = "kubernetes.default.svc" }), reasonName},
		"a server with an address": {
			inspectServer(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")} }), reasonAddress,
		},
		"a server as its node's agent": {inspectServer(func(w *wish) { w.template.Subject.CommonName = "n1" }), reasonName},
		"a server as a client":         {inspectServer(func(w *wish) { w.usages = both }), reasonUsage},
		"a server of no node":          {inspectServer(func(w *wish) { w.token = nil }), reasonNode},
		"an agent as inspection's server": {
			inspectServer(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-agent" }), reasonAsker,
		},
		"a tenant as inspection's server": {inspectServer(func(w *wish) { w.user = "system:serviceaccount:acme:atoll-inspect" }), reasonAsker},
		"by a client certificate":         {node(func(w *wish) { w.token, w.groups = nil, []string{"x", "atoll.dev:node:n1"} }), ""},
		"twice the same node":             {node(func(w *wish) { w.groups = []string{"atoll.dev:node:n1"} }), ""},
		"P-384":                           {node(func(w *wish) { w.key = p384 }), ""},
		"usages in another order":         {node(func(w *wish) { w.usages = []certificates.KeyUsage{client[1], client[0], client[1]} }), ""},
		"ten minutes":                     {node(func(w *wish) { w.expire = ptr.To[int32](600) }), ""},
		"a member":                        {member(func(*wish) {}), ""},
		"a member without address":        {member(func(w *wish) { w.template.IPAddresses = nil }), ""},
		"an agent":                        {agent(func(*wish) {}), ""},
		"another node's name":             {node(func(w *wish) { w.template.Subject.CommonName = "n2" }), reasonName},
		"a member's name":                 {node(func(w *wish) { w.template.Subject.CommonName = "atoll-ovn-central:n1" }), reasonName},
		"no name":                         {node(func(w *wish) { w.template.Subject.CommonName = "" }), reasonName},
		"an organization":                 {node(func(w *wish) { w.template.Subject.Organization = []string{"system:masters"} }), reasonName},
		"two names": {node(func(w *wish) {
			w.template.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "n2"}}
		}), reasonName},
		"another's member":          {member(func(w *wish) { w.template.Subject.CommonName = "atoll-ovn-central:n2" }), reasonName},
		"a member as a node":        {member(func(w *wish) { w.template.Subject.CommonName = "n1" }), reasonName},
		"a controller's name":       {member(func(w *wish) { w.template.Subject.CommonName = ControllerName }), reasonName},
		"no node":                   {node(func(w *wish) { w.token = nil }), reasonNode},
		"an empty node":             {node(func(w *wish) { w.token = []string{""} }), reasonNode},
		"two nodes":                 {node(func(w *wish) { w.token = []string{"n1", "n2"} }), reasonNode},
		"two nodes by a group":      {node(func(w *wish) { w.groups = []string{"atoll.dev:node:n2"} }), reasonNode},
		"a node that is gone":       {node(func(w *wish) { w.node = "" }), reasonNode},
		"another Node is looked up": {node(func(w *wish) { w.node = "n2" }), reasonNode},
		"a node asks for a member":  {node(func(w *wish) { w.signer = SignerCentral }), reasonAsker},
		"a member asks for a node":  {member(func(w *wish) { w.signer = SignerNode }), reasonAsker},
		"another namespace":         {node(func(w *wish) { w.user = "system:serviceaccount:team:atoll-agent" }), reasonAsker},
		"another ServiceAccount":    {node(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-dns" }), reasonAsker},
		"an admin": {
			node(func(w *wish) { w.user, w.groups = "admin", []string{"system:masters", "atoll.dev:node:n1"} }), reasonAsker,
		},
		"no user":                   {node(func(w *wish) { w.user = "" }), reasonAsker},
		"another signer":            {node(func(w *wish) { w.signer = "kubernetes.io/kube-apiserver-client" }), reasonAsker},
		"a node as a server":        {node(func(w *wish) { w.usages = both }), reasonUsage},
		"a member as a client only": {member(func(w *wish) { w.usages = client }), reasonUsage},
		"usage of a CA":             {member(func(w *wish) { w.usages = append(slices.Clone(both), certificates.UsageCertSign) }), reasonUsage},
		"no usages":                 {node(func(w *wish) { w.usages = nil }), reasonUsage},
		"a node's address":          {node(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")} }), reasonAddress},
		"another node's address": {
			member(func(w *wish) { w.template.IPAddresses = append(w.template.IPAddresses, net.ParseIP("192.0.2.2")) }), reasonAddress,
		},
		"loopback":                 {member(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")} }), reasonAddress},
		"a host name":              {member(func(w *wish) { w.template.DNSNames = []string{"n1"} }), reasonName},
		"an email address":         {member(func(w *wish) { w.template.EmailAddresses = []string{"a@b"} }), reasonName},
		"another node's agent":     {agent(func(w *wish) { w.template.Subject.CommonName = "n2" }), reasonName},
		"an agent as a member":     {agent(func(w *wish) { w.template.Subject.CommonName = "atoll-ovn-central:n1" }), reasonName},
		"an agent elsewhere":       {agent(func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.2")} }), reasonAddress},
		"an agent by a host name":  {agent(func(w *wish) { w.template.DNSNames = []string{"n2"} }), reasonName},
		"an agent as a client":     {agent(func(w *wish) { w.usages = client }), reasonUsage},
		"an agent as both":         {agent(func(w *wish) { w.usages = both }), reasonUsage},
		"an agent of no node":      {agent(func(w *wish) { w.token = nil }), reasonNode},
		"a node's OVN as an agent": {agent(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-ovn-node" }), reasonAsker},
		"a member as an agent":     {agent(func(w *wish) { w.user = "system:serviceaccount:atoll-system:atoll-ovn-central" }), reasonAsker},
		"a tenant as an agent":     {agent(func(w *wish) { w.user = "system:serviceaccount:acme:atoll-agent" }), reasonAsker},
		"to be a CA": {member(func(w *wish) {
			w.template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: basic}}
		}), reasonRequest},
		"RSA":                 {node(func(w *wish) { w.key = rsaKey }), reasonKey},
		"P-224":               {node(func(w *wish) { w.key = p224 }), reasonKey},
		"Ed25519":             {node(func(w *wish) { w.key = edwards }), reasonKey},
		"a spoiled signature": {node(func(w *wish) { w.spoil = true }), reasonRequest},
		"no PEM":              {node(func(w *wish) { w.text = "request" }), reasonRequest},
		"another block":       {node(func(w *wish) { w.text = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" }), reasonRequest},
		"a minute":            {node(func(w *wish) { w.expire = ptr.To[int32](60) }), reasonLife},
	} {
		grant, public, err := Judge(test.wish.spec(t), nodes[test.wish.node])
		refusal, refused := errors.AsType[*RefusalError](err)
		switch {
		case test.reason == "" && (err != nil || public == nil || grant.CommonName != test.wish.template.Subject.CommonName ||
			grant.Server != slices.Contains(test.wish.usages, certificates.UsageServerAuth) ||
			grant.Client != slices.Contains(test.wish.usages, certificates.UsageClientAuth)):
			t.Errorf("%s: %v, %+v", name, err, grant)
		case test.reason != "" && (!refused || refusal.Reason != test.reason || refusal.Message == ""):
			t.Errorf("%s: %v; want a refusal: %s", name, err, test.reason)
		case err != nil && (public != nil || grant.CommonName != ""):
			t.Errorf("%s: a refusal comes with a grant", name)
		}
	}
	// The names of a server are those of the signer, in the signer's order.
	reversed := inspectServer(func(w *wish) { slices.Reverse(w.template.DNSNames) })
	if grant, _, err := Judge(reversed.spec(t), nodes["n1"]); err != nil || !slices.Equal(grant.Names, inspectNames()) ||
		len(grant.Addresses) > 0 {
		t.Errorf("inspection's server is granted %v, %v: %v", grant.Names, grant.Addresses, err)
	}
	grant, _, err := Judge(member(func(*wish) {}).spec(t), nodes["n1"])
	if err != nil || !slices.Equal(grant.Addresses, []netip.Addr{netip.MustParseAddr("192.0.2.1")}) {
		t.Errorf("a member is granted %v: %v", grant.Addresses, err)
	}
}
