package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
)

const (
	// SignerCentral is the signer of members' certificates: servers of databases, and ovn-northd.
	SignerCentral = "atoll.dev/ovn-central"
	// SignerNode is the signer of nodes' certificates: ovn-controllers.
	SignerNode = "atoll.dev/ovn-node"
	// SignerAgent is the signer of the certificates that nodes' agents show to controllers.
	SignerAgent = "atoll.dev/agent"
	// SignerReader is the signer of the certificates with which nodes' agents read the southbound database.
	SignerReader = "atoll.dev/ovn-reader"
	// SignerInspect is the signer of the certificates that atoll-inspect shows to OVN's databases and to nodes' agents.
	SignerInspect = "atoll.dev/inspect"
	// SignerInspectServer is the signer of the certificates that atoll-inspect shows to the API server.
	SignerInspectServer = "atoll.dev/inspect-server"

	// Namespace holds the authorities, and the ServiceAccounts that may ask.
	Namespace = "atoll-system"
	// MemberPrefix is before the node's name in the CN of a member's certificate. No node's name has a colon, so that no node's
	// certificate is taken for a member's.
	MemberPrefix = "atoll-ovn-central:"
	// ReaderPrefix is before the node's name in the CN of the certificate with which an agent reads the southbound database. No chassis has
	// such a name, so OVN's role ovn-controller lets its holder write no row that belongs to a chassis.
	ReaderPrefix = "atoll-agent:"
	// ControllerName is the CN of controllers' certificates.
	ControllerName = "atoll-controller"
	// InspectPrefix is before the node's name in the CN of the certificate that atoll-inspect shows to databases and agents.
	InspectPrefix = "atoll-inspect:"
	// InspectName is the ServiceAccount of atoll-inspect, its Service, and the CN of the certificate that it shows to the API server.
	InspectName = "atoll-inspect"

	// tokenNode is where the API server tells which node a token is bound to, in spec.extra.
	tokenNode = "authentication.kubernetes.io/node-name"
	// groupNode is before the node's name in the organization of a client certificate that stands for a node's agent.
	groupNode = "atoll.dev:node:"
)

// askers are the ServiceAccounts that each signer serves.
var askers = map[string][]string{
	SignerCentral: {"atoll-ovn-central"},
	SignerNode:    {"atoll-ovn-node"},
	SignerAgent:   {"atoll-agent"},
	SignerReader:  {"atoll-agent"},

	SignerInspect:       {InspectName},
	SignerInspectServer: {InspectName},
}

// inspectNames are the DNS names by which the API server calls the Service of atoll-inspect.
func inspectNames() []string {
	host := InspectName + "." + Namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// Grant is what a certificate says. Nothing else of a request gets into one.
type Grant struct {
	CommonName string
	// Addresses are the node's own, of a server; sorted as asked for.
	Addresses []netip.Addr
	// Server: it may be a server's certificate. Client: it may be a client's.
	Server, Client bool
	// Names are those by which a server is called.
	Names []string
}

// grantOf is what a node gets of a signer, but for addresses.
func grantOf(signer, node string) Grant {
	switch signer {
	case SignerCentral:
		return Grant{CommonName: MemberPrefix + node, Server: true, Client: true}
	case SignerAgent:
		return Grant{CommonName: node, Server: true}
	case SignerReader:
		return Grant{CommonName: ReaderPrefix + node, Client: true}
	case SignerInspect:
		// It is never a server's: with the central authority's signature, it could pose as a database.
		return Grant{CommonName: InspectPrefix + node, Client: true}
	case SignerInspectServer:
		return Grant{CommonName: InspectName, Names: inspectNames(), Server: true}
	}
	return Grant{CommonName: node, Client: true}
}

// usages are what a request asks for who gets the grant.
func (g Grant) usages() []certificates.KeyUsage {
	out := []certificates.KeyUsage{certificates.UsageDigitalSignature}
	if g.Client {
		out = append(out, certificates.UsageClientAuth)
	}
	if g.Server {
		out = append(out, certificates.UsageServerAuth)
	}
	return out
}

// Refusal says why there is no certificate, to who asked and to who looks after the cluster.
type RefusalError struct {
	// Reason is one word, for programs.
	Reason string
	// Message is a sentence.
	Message string
}

func (r *RefusalError) Error() string { return r.Message }

// The reasons of refusals.
const (
	reasonAsker   = "UnknownRequester"
	reasonNode    = "NotOfItsNode"
	reasonName    = "WrongName"
	reasonAddress = "ForeignAddress"
	reasonUsage   = "WrongUsages"
	reasonRequest = "MalformedRequest"
	reasonKey     = "WeakKey"
	reasonLife    = "TooShort"
	reasonShutOut = "NodeShutOut"
)

func refuse(reason, format string, args ...any) error {
	return &RefusalError{reason, fmt.Sprintf(format, args...)}
}

// NodeOf is the node that a request comes from: the one that its requester's token is bound to, or that is in a group of its
// client certificate. It is an error (Refusal) if there is none, or more than one, or the requester is none that the signer
// serves. The API server writes all that it reads.
func NodeOf(spec *certificates.CertificateSigningRequestSpec) (string, error) {
	account, ours := strings.CutPrefix(spec.Username, "system:serviceaccount:"+Namespace+":")
	if !ours || !slices.Contains(askers[spec.SignerName], account) {
		return "", refuse(reasonAsker, "%s serves the ServiceAccounts %s of namespace %s, not %q",
			spec.SignerName, strings.Join(askers[spec.SignerName], " and "), Namespace, spec.Username)
	}
	nodes := slices.Clone([]string(spec.Extra[tokenNode]))
	for _, group := range spec.Groups {
		if node, ok := strings.CutPrefix(group, groupNode); ok {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	switch nodes = slices.Compact(nodes); {
	case len(nodes) == 0:
		return "", refuse(reasonNode,
			"the requester's token is bound to no node: use the token of a pod (Kubernetes 1.32 and newer), or one that is bound to a Node")
	case len(nodes) > 1 || nodes[0] == "":
		return "", refuse(reasonNode, "the requester stands for several nodes: %s", strings.Join(nodes, ", "))
	}
	return nodes[0], nil
}

// Judge decides what a request gets: a Grant and the key that it is for, or a Refusal. The node is the one that NodeOf names.
func Judge(spec *certificates.CertificateSigningRequestSpec, node *core.Node) (Grant, *ecdsa.PublicKey, error) {
	name, err := NodeOf(spec)
	if err != nil {
		return Grant{}, nil, err
	}
	if node == nil || node.Name != name {
		return Grant{}, nil, refuse(reasonNode, "there is no Node %q, which the requester's token is bound to", name)
	}
	grant := grantOf(spec.SignerName, name)
	if err := judgeUsages(spec.Usages, grant.usages()); err != nil {
		return Grant{}, nil, err
	}
	if s := spec.ExpirationSeconds; s != nil && time.Duration(*s)*time.Second < MinLife {
		return Grant{}, nil, refuse(reasonLife, "expirationSeconds is less than %d", int(MinLife.Seconds()))
	}
	request, key, err := readRequest(spec.Request)
	if err != nil {
		return Grant{}, nil, err
	}
	if request.Subject.CommonName != grant.CommonName || len(request.Subject.Names) != 1 {
		return Grant{}, nil, refuse(reasonName,
			"the request is for %q; the requester, on node %s, gets a certificate with the subject \"CN=%s\" and no other",
			request.Subject.String(), name, grant.CommonName)
	}
	if grant.Addresses, err = judgeNames(request, node, spec.SignerName, grant); err != nil {
		return Grant{}, nil, err
	}
	return grant, key, nil
}

// readRequest reads a request in PKCS #10 and proves that who asks has the key.
func readRequest(text []byte) (*x509.CertificateRequest, *ecdsa.PublicKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != blockRequest || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, nil, refuse(reasonRequest, "spec.request is not one PEM block of type %q", blockRequest)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, nil, refuse(reasonRequest, "spec.request cannot be read: %v", err)
	}
	key, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok || (key.Curve != elliptic.P256() && key.Curve != elliptic.P384()) {
		return nil, nil, refuse(reasonKey, "the key is neither ECDSA P-256 nor P-384")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, nil, refuse(reasonRequest, "the request is not signed by its own key: %v", err)
	}
	return request, key, nil
}

func judgeUsages(usages, want []certificates.KeyUsage) error {
	slices.Sort(want)
	have := slices.Clone(usages)
	slices.Sort(have)
	if !slices.Equal(slices.Compact(have), want) {
		return refuse(reasonUsage, "usages are %q, and must be %q", usages, want)
	}
	return nil
}

// extensionNames is the extension of alternative names.
var extensionNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// judgeNames takes addresses of the requester's own node, of a server, and no other names or extensions. A server that is called
// by names has exactly these, and no addresses.
func judgeNames(request *x509.CertificateRequest, node *core.Node, signer string, grant Grant) ([]netip.Addr, error) {
	for _, extension := range request.Extensions {
		if !extension.Id.Equal(extensionNames) {
			return nil, refuse(reasonRequest, "the request asks for extension %s; it may ask for alternative names only", extension.Id)
		}
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 || len(grant.Names) == 0 && len(request.DNSNames) > 0 {
		return nil, refuse(reasonName, "the request asks for alternative names other than addresses")
	}
	if !slices.Equal(slices.Sorted(slices.Values(request.DNSNames)), slices.Sorted(slices.Values(grant.Names))) {
		return nil, refuse(reasonName, "the request asks for the names %q; certificates of %s have %q", request.DNSNames, signer, grant.Names)
	}
	if len(grant.Names) > 0 && len(request.IPAddresses) > 0 {
		return nil, refuse(reasonAddress, "the request asks for addresses; certificates of %s have names only", signer)
	}
	if !grant.Server && len(request.Extensions) > 0 {
		return nil, refuse(reasonAddress, "the request asks for alternative names; certificates of %s have none", signer)
	}
	own := map[netip.Addr]bool{}
	for _, address := range node.Status.Addresses {
		if parsed, err := netip.ParseAddr(address.Address); err == nil {
			own[parsed.Unmap()] = true
		}
	}
	var granted []netip.Addr
	for _, ip := range request.IPAddresses {
		address, ok := netip.AddrFromSlice(ip)
		if address = address.Unmap(); !ok || !own[address] {
			return nil, refuse(reasonAddress, "%s is no address of node %s", ip, node.Name)
		}
		granted = append(granted, address)
	}
	return granted, nil
}
