package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/porthole"
)

// Bounds of what is read from AnnotationAttachments. A tenant may have written it before the controller did.
const (
	maxAnnotation  = 16 << 10
	maxAttachments = 16
)

// errNotAttached: the controller has not (yet) decided about the interface.
var errNotAttached = errors.New("the controller has not attached the pod")

// nic is one interface of a pod in the form that package netdev takes.
type nic struct {
	network, networkUID string
	mac                 net.HardwareAddr
	addresses           []netip.Prefix
	gateways            []netip.Addr
	// faces are one for each of addresses and in their order, or none.
	faces []netip.Addr
}

// doors are the nic's addresses with their faces.
func (n nic) doors() []porthole.Pod {
	var out []porthole.Pod
	for i, face := range n.faces {
		out = append(out, porthole.Pod{Own: n.addresses[i].Addr(), Face: face})
	}
	return out
}

func (n nic) equal(o nic) bool {
	return n.network == o.network && n.mac.String() == o.mac.String() &&
		slices.Equal(n.addresses, o.addresses) && slices.Equal(n.gateways, o.gateways) &&
		n.networkUID == o.networkUID && slices.Equal(n.faces, o.faces)
}

// parseAttachment finds an interface in the annotation and checks that it can be configured. That the values
// are the controller's is not checked, and need not be: see the package's doc.
func parseAttachment(annotation, podUID, iface string) (nic, error) {
	a, err := findAttachment(annotation, podUID, iface)
	if err != nil {
		return nic{}, err
	}
	return nicOf(a)
}

// findAttachment finds an interface in the annotation. Attachments of another pod, which came along when a pod's
// manifest was copied, are as good as none.
func findAttachment(annotation, podUID, iface string) (model.Attachment, error) {
	if annotation == "" {
		return model.Attachment{}, errNotAttached
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
		return model.Attachment{}, errNotAttached
	}
	for _, a := range attachments {
		if a.Interface == iface {
			return a, nil
		}
	}
	return model.Attachment{}, fmt.Errorf("annotation %s has no interface %q", model.AnnotationAttachments, iface)
}

func nicOf(a model.Attachment) (nic, error) {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || slices.Equal(mac, make(net.HardwareAddr, 6)) {
		return nic{}, fmt.Errorf("attachment of %s: %q is not the MAC address of an interface", a.Interface, a.MAC)
	}
	n := nic{
		network: a.Network, networkUID: a.NetworkUID, mac: mac, addresses: a.Addresses, gateways: a.Gateways, faces: a.Faces,
	}
	families := map[bool]netip.Addr{}
	for _, prefix := range a.Addresses {
		address := prefix.Addr()
		if !prefix.IsValid() || prefix.Bits() == 0 || !isHost(address) {
			return nic{}, fmt.Errorf("attachment of %s: %q is not an address of a pod", a.Interface, prefix)
		}
		if _, twice := families[address.Is4()]; twice {
			return nic{}, fmt.Errorf("attachment of %s: more than one address of a family", a.Interface)
		}
		families[address.Is4()] = address
	}
	if len(families) == 0 {
		return nic{}, fmt.Errorf("attachment of %s has no address", a.Interface)
	}
	routed := map[bool]bool{}
	for _, gateway := range a.Gateways {
		own, has := families[gateway.Is4()]
		if !gatewayOK(gateway) || !has || gateway == own || routed[gateway.Is4()] {
			return nic{}, fmt.Errorf("attachment of %s: %q is not a gateway for its addresses", a.Interface, gateway)
		}
		routed[gateway.Is4()] = true
	}
	if len(a.Faces) == 0 {
		return n, nil
	}
	if len(a.Faces) != len(a.Addresses) || a.NetworkUID == "" {
		return nic{}, fmt.Errorf("attachment of %s has %d faces for %d addresses of Network %q", a.Interface, len(a.Faces), len(a.Addresses), a.NetworkUID)
	}
	for i, face := range a.Faces {
		if own := a.Addresses[i].Addr(); !isHost(face) || face.Is4() != own.Is4() {
			return nic{}, fmt.Errorf("attachment of %s: %q cannot be the face of %s", a.Interface, face, own)
		}
	}
	return n, nil
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
