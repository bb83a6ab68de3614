package certs

import (
	"context"
	"fmt"
	"maps"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// ConfigMapName is the ConfigMap with the authorities' certificates, for all who verify one.
	ConfigMapName = "atoll-ca"
	// KeyCentral is its key for the bundle of the central authority, in PEM.
	KeyCentral = "central.crt"
	// KeyNode is its key for the bundle of the authority of nodes.
	KeyNode = "node.crt"
	// KeyAgent is its key for the bundle of the authority of nodes' agents.
	KeyAgent = "agent.crt"
	// RotateAnnotation on an authority's Secret asks for a new CA now. The controller removes it when there is one.
	RotateAnnotation = "atoll.dev/rotate"

	secretCertificates, secretKeys = "tls.crt", "tls.key"
	secretType                     = "atoll.dev/certificate-authority" //nolint:gosec // The name of a kind.
)

// Kind is one of the authorities.
type Kind string

// The authorities.
const (
	// Central signs for members, controllers, and atoll-inspect as a client; all trust it.
	Central Kind = "central"
	// Node signs for nodes as clients; the southbound database trusts it.
	Node Kind = "node"
	// Agent signs for nodes' agents and for atoll-inspect as servers; atoll-inspect trusts it for agents, and the API server for
	// atoll-inspect. It is not Node: the servers of the southbound database believe each other by the CAs of clients, too, and a
	// node that had a server's certificate of these could pose as one of them.
	Agent Kind = "agent"
)

// kinds are all authorities.
func kinds() []Kind { return []Kind{Central, Node, Agent} }

// Secret is the name of the Secret that it is kept in, in Namespace.
func (k Kind) Secret() string { return "atoll-ca-" + string(k) }

// Bundle is the key of its certificates in ConfigMapName.
func (k Kind) Bundle() string { return string(k) + ".crt" }

// kindOf is the authority behind each signer.
var kindOf = map[string]Kind{
	SignerCentral: Central, SignerNode: Node, SignerAgent: Agent, SignerReader: Node, SignerInspect: Central, SignerInspectServer: Agent,
}

// Authorities are all of them, as they are kept.
type Authorities map[Kind]Authority

// store keeps authorities in Secrets. Only a leader writes; what two write at the same time, the API server gives to one.
type store struct {
	client kubernetes.Interface
	now    func() time.Time
}

// current reads all authorities, makes what there is not, goes on to the next CA where it is time, and publishes. Whatever goes wrong,
// nobody signs: what is not published would not be trusted.
func (s store) current(ctx context.Context) (Authorities, error) {
	all := Authorities{}
	next := map[Kind]*core.Secret{}
	for _, kind := range kinds() {
		authority, secret, err := s.read(ctx, kind)
		if err != nil {
			return nil, err
		}
		_, wanted := secret.Annotations[RotateAnnotation]
		later, changed, err := authority.Next(string(kind), s.now(), wanted)
		if err != nil {
			return nil, err
		}
		if changed || wanted {
			if secret, err = fill(secret.DeepCopy(), later); err != nil {
				return nil, err
			}
			delete(secret.Annotations, RotateAnnotation)
			next[kind] = secret
		}
		all[kind] = later
	}
	// First what all trust, then what signs: nothing is signed with what was not published since it was made.
	if err := s.publish(ctx, all); err != nil {
		return nil, err
	}
	for kind, secret := range next {
		if _, err := s.client.CoreV1().Secrets(Namespace).Update(ctx, secret, meta.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("write authority %s: %w", kind, err)
		}
	}
	return all, nil
}

// read takes an authority that is there, or makes it.
func (s store) read(ctx context.Context, kind Kind) (Authority, *core.Secret, error) {
	secrets := s.client.CoreV1().Secrets(Namespace)
	secret, err := secrets.Get(ctx, kind.Secret(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		var authority Authority
		if authority, err = NewAuthority(string(kind), s.now()); err != nil {
			return nil, nil, err
		}
		if secret, err = fill(&core.Secret{ObjectMeta: meta.ObjectMeta{Name: kind.Secret(), Namespace: Namespace}, Type: secretType},
			authority); err != nil {
			return nil, nil, err
		}
		// Another controller may have been quicker: then its authority is the one.
		if secret, err = secrets.Create(ctx, secret, meta.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			secret, err = secrets.Get(ctx, kind.Secret(), meta.GetOptions{})
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read authority %s: %w", kind, err)
	}
	authority, err := decodeAuthority(secret.Data[secretCertificates], secret.Data[secretKeys])
	if err != nil {
		return nil, nil, fmt.Errorf("read authority %s in Secret %s/%s (if it cannot be restored, delete it: all certificates are made anew): %w",
			kind, Namespace, kind.Secret(), err)
	}
	return authority, secret, nil
}

func fill(secret *core.Secret, a Authority) (*core.Secret, error) {
	certificates, keys, err := a.encode()
	if err != nil {
		return nil, err
	}
	secret.Data = map[string][]byte{secretCertificates: certificates, secretKeys: keys}
	return secret, nil
}

// publish writes the bundles where they differ.
func (s store) publish(ctx context.Context, all Authorities) error {
	objects := s.client.CoreV1().ConfigMaps(Namespace)
	want := map[string]string{}
	for _, kind := range kinds() {
		want[kind.Bundle()] = string(all[kind].Bundle())
	}
	have, err := objects.Get(ctx, ConfigMapName, meta.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = objects.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: ConfigMapName, Namespace: Namespace}, Data: want},
			meta.CreateOptions{})
	case err == nil && (!maps.Equal(have.Data, want)):
		have = have.DeepCopy()
		have.Data = want
		_, err = objects.Update(ctx, have, meta.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish authorities in ConfigMap %s/%s: %w", Namespace, ConfigMapName, err)
	}
	return nil
}
