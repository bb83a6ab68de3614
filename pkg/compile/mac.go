package compile

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
)

// Prefixes of our MAC addresses: locally administered, unicast (IEEE 802, the second bit of the first octet).
const (
	macPod    = 0x0a
	macRouter = 0x0e
)

// PodMAC is the MAC address of a pod's interface: it follows from the pod's addresses, so that it is unique
// in its subnet as they are. The first octets are 0a:58 and the IPv4 address, or 0a and a digest of the IPv6
// address.
func PodMAC(addresses []netip.Addr) string {
	for _, a := range addresses {
		if a.Is4() {
			b := a.As4()
			return fmt.Sprintf("%02x:58:%02x:%02x:%02x:%02x", macPod, b[0], b[1], b[2], b[3])
		}
	}
	for _, a := range addresses {
		return digestMAC(macPod, a.String())
	}
	return ""
}

// routerMAC is the MAC address of a router's port: a digest of its name, so that ports of different Networks
// differ even where they meet.
func routerMAC(port string) string { return digestMAC(macRouter, port) }

func digestMAC(first byte, of string) string {
	d := sha256.Sum256([]byte(of))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", first, d[0], d[1], d[2], d[3], d[4])
}
