// Package attachment reads what the controller wrote on a pod about an interface of it: an annotation in, an interface that can be
// configured out. That the values are the controller's is not checked, and need not be: see package agent.
package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// Bounds of what is read from AnnotationAttachments. A tenant may have written it before the controller did.
const (
	maxAnnotation  = 16 << 10
	maxAttachments = 16
)

// ErrNone: the controller has not (yet) decided about the interface.
var ErrNone = errors.New("the controller has not attached the pod")

// NIC is one interface of a pod in the form that package netdev takes.
type NIC struct {
	Network, NetworkUID string
	MAC                 net.HardwareAddr
	Addresses           []netip.Prefix
	Gateways            []netip.Addr
	// Faces are one for each of Addresses and in their order, or none.
	Faces []netip.Addr
}

// Doors are the addresses with their faces.
func (n NIC) Doors() []porthole.Pod {
	var out []porthole.Pod
	for i, face := range n.Faces {
		out = append(out, porthole.Pod{Own: n.Addresses[i].Addr(), Face: face})
	}
	return out
}

// Equal reports whether both are configured alike.
func (n NIC) Equal(o NIC) bool {
	return n.Network == o.Network && n.MAC.String() == o.MAC.String() &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.Gateways, o.Gateways) &&
		n.NetworkUID == o.NetworkUID && slices.Equal(n.Faces, o.Faces)
}

// Parse finds an interface of a pod in the annotation and checks that it can be configured.
func Parse(annotation, podUID, iface string) (NIC, error) {
	a, err := find(annotation, podUID, iface)
	if err != nil {
		return NIC{}, err
	}
	return nicOf(a)
}

// find finds an interface in the annotation. Attachments of another pod, which came along when a pod's
// manifest was copied, are as good as none.
func find(annotation, podUID, iface string) (model.Attachment, error) {
	if annotation == "" {
		return model.Attachment{}, ErrNone
	}
	if len(annotation) > maxAnnotation {
		return model.Attachment{}, fmt.Errorf("annotation %s is longer than %d bytes", model.AnnotationAttachments, maxAnnotation)
	}
	var attachments []model.Attachment
	if err := json.Unmarshal([]byte(annotation), &attachments); err != nil {
		return model.Attachment{}, fmt.Errorf("read annotation %s: %w", model.AnnotationAttachments, err)
	}
	if len(attachments) > maxAttachments {
		return model.Attachment{}, fmt.Errorf("annotation %s holds more than %d interfaces", model.AnnotationAttachments, maxAttachments)
	}
	attachments = slices.DeleteFunc(attachments, func(a model.Attachment) bool { return a.PodUID != podUID })
	if len(attachments) == 0 {
		return model.Attachment{}, ErrNone
	}
	for _, a := range attachments {
		if a.Interface == iface {
			return a, nil
		}
	}
	return model.Attachment{}, fmt.Errorf("annotation %s has no interface %q", model.AnnotationAttachments, iface)
}

func nicOf(a model.Attachment) (NIC, error) {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || slices.Equal(mac, make(net.HardwareAddr, 6)) {
		return NIC{}, fmt.Errorf("attachment of %s: %q is not the MAC address of an interface", a.Interface, a.MAC)
	}
	n := NIC{
		Network: a.Network, NetworkUID: a.NetworkUID, MAC: mac, Addresses: a.Addresses, Gateways: a.Gateways, Faces: a.Faces,
	}
	if err := checkAddresses(a); err != nil {
		return NIC{}, err
	}
	if err := checkFaces(a); err != nil {
		return NIC{}, err
	}
	return n, nil
}

// checkAddresses checks the own addresses, at most one of each IP family, and their gateways.
func checkAddresses(a model.Attachment) error {
	families := map[bool]netip.Addr{}
	for _, prefix := range a.Addresses {
		address := prefix.Addr()
		if !prefix.IsValid() || prefix.Bits() == 0 || !isHost(address) {
			return fmt.Errorf("attachment of %s: %q is not an address of a pod", a.Interface, prefix)
		}
		if _, twice := families[address.Is4()]; twice {
			return fmt.Errorf("attachment of %s: more than one address of a family", a.Interface)
		}
		families[address.Is4()] = address
	}
	if len(families) == 0 {
		return fmt.Errorf("attachment of %s has no address", a.Interface)
	}
	routed := map[bool]bool{}
	for _, gateway := range a.Gateways {
		own, has := families[gateway.Is4()]
		if !gatewayOK(gateway) || !has || gateway == own || routed[gateway.Is4()] {
			return fmt.Errorf("attachment of %s: %q is not a gateway for its addresses", a.Interface, gateway)
		}
		routed[gateway.Is4()] = true
	}
	return nil
}

// checkFaces checks that there is no face, or one for each address, of its IP family.
func checkFaces(a model.Attachment) error {
	if len(a.Faces) == 0 {
		return nil
	}
	if len(a.Faces) != len(a.Addresses) || a.NetworkUID == "" {
		return fmt.Errorf("attachment of %s has %d faces for %d addresses of Network %q", a.Interface, len(a.Faces), len(a.Addresses),
			a.NetworkUID)
	}
	for i, face := range a.Faces {
		if own := a.Addresses[i].Addr(); !isHost(face) || face.Is4() != own.Is4() {
			return fmt.Errorf("attachment of %s: %q cannot be the face of %s", a.Interface, face, own)
		}
	}
	return nil
}

// isHost reports whether an address can be a pod's own.
func isHost(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() &&
		!a.IsLoopback() && !a.IsLinkLocalUnicast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// gatewayOK also allows a link-local router.
func gatewayOK(a netip.Addr) bool {
	return isHost(a) || a.Zone() == "" && !a.Is4In6() && a.IsLinkLocalUnicast()
}
