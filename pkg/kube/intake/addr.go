package intake

import (
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxAddrText is longer than any address, range or prefix that can be read; longer text is not quoted back.
const maxAddrText = 128

// quote shortens text that a user wrote, so that it can stand in a message.
func quote(text string) string {
	if len(text) > maxAddrText {
		return fmt.Sprintf("%q... (%d bytes)", text[:maxAddrText], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// parseAddr reads one address. Forms that look different but mean the same (IPv4 inside IPv6) and forms that
// mean something only on one machine (a zone) are refused, so that equal addresses are equal values.
func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || len(text) > maxAddrText {
		return netip.Addr{}, fmt.Errorf("%s is not an IP address", quote(text))
	}
	return a, plain(a, text)
}

func plain(a netip.Addr, text string) error {
	if a.Zone() != "" {
		return fmt.Errorf("%s names a zone, which has no meaning in a Network", quote(text))
	}
	if a.Is4In6() {
		return fmt.Errorf("%s is an IPv4 address in IPv6 form; write it as %s", quote(text), a.Unmap())
	}
	return nil
}

// parsePrefix reads a range in CIDR form whose host bits are zero.
func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || len(text) > maxAddrText {
		return netip.Prefix{}, fmt.Errorf("%s is not a range such as 10.0.0.0/16", quote(text))
	}
	if err := plain(p.Addr(), text); err != nil {
		return netip.Prefix{}, err
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%s is an address inside a range; the range is %s", quote(text), p.Masked())
	}
	if netipx.PrefixLastIP(p).Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s ends among the IPv4 addresses in IPv6 form (::ffff:0:0/96), which no Network has", quote(text))
	}
	return p, nil
}

// parseRange reads "a", "a/len" or "a-b".
func parseRange(text string) (model.AddrRange, error) {
	if first, last, found := strings.Cut(text, "-"); found {
		a, err := parseAddr(strings.TrimSpace(first))
		if err != nil {
			return model.AddrRange{}, err
		}
		b, err := parseAddr(strings.TrimSpace(last))
		if err != nil {
			return model.AddrRange{}, err
		}
		if a.Is4() != b.Is4() {
			return model.AddrRange{}, fmt.Errorf("%s mixes IPv4 and IPv6", quote(text))
		}
		if b.Less(a) {
			return model.AddrRange{}, fmt.Errorf("%s ends before it begins", quote(text))
		}
		return model.AddrRange{First: a, Last: b}, nil
	}
	if strings.Contains(text, "/") {
		p, err := parsePrefix(text)
		if err != nil {
			return model.AddrRange{}, err
		}
		return model.AddrRange{First: p.Addr(), Last: netipx.PrefixLastIP(p)}, nil
	}
	a, err := parseAddr(text)
	if err != nil {
		return model.AddrRange{}, err
	}
	return model.AddrRange{First: a, Last: a}, nil
}
