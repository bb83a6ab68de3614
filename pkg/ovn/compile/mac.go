package compile

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
)

// Prefixes of our MAC addresses: locally administered, unicast (IEEE 802, the second bit of the first octet).
const (
	macPod    = 0x0a
	macRouter = 0x0e
)

// PodMAC is the MAC address of a pod's interface: 0a:58 and the pod's IPv4 address, so that it is as unique in
// its subnet as that one is. Without an IPv4 address it is 0a and 40 bits of a digest of the pod's UID and
// addresses: a tenant chooses addresses but no UID, and so cannot look for one that gives another pod's MAC.
func PodMAC(uid string, addresses []netip.Addr) string {
	var of strings.Builder
	of.WriteString(uid)
	for _, a := range addresses {
		if a.Is4() {
			b := a.As4()
			return fmt.Sprintf("%02x:58:%02x:%02x:%02x:%02x", macPod, b[0], b[1], b[2], b[3])
		}
		of.WriteString(" " + a.String())
	}
	return digestMAC(macPod, of.String())
}

// routerMAC is the MAC address of a router's port in a subnet: a digest of the subnet's name, so that those of one router differ.
// In Networks whose subnets have the same name it is the same: they share no switch, and OVN has for all of them together
// the logical flows that name this address, or the link-local one that follows from it, and no port. A subnet of a flat Network
// beside the default one is on the default Network's router, which may have a subnet of the same name.
func routerMAC(l Layout, subnet string) string {
	if l.Home != nil {
		return digestMAC(macRouter, routerPortName(l.Name, subnet))
	}
	return digestMAC(macRouter, subnet)
}

func digestMAC(first byte, of string) string {
	d := sha256.Sum256([]byte(of))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", first, d[0], d[1], d[2], d[3], d[4])
}
