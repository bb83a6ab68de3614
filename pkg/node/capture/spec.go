package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// The bounds of one capture.
const (
	// MaxPart is how long one part may take, and MaxTime all of them.
	MaxPart = 40 * time.Second
	MaxTime = time.Hour
	// MinSnapLength and MaxSnapLength bound what is kept of a packet, in bytes.
	MinSnapLength = 64
	MaxSnapLength = 65535
	// MaxBytes bounds what is kept of all packets.
	MaxBytes = 1 << 30
	// MaxCount bounds their number.
	MaxCount = 100_000_000
	// MaxLength is more than a packet of any interface has: the kernel joins some, for speed.
	MaxLength = 1 << 20
	// MaxTerms bounds each list of a Filter.
	MaxTerms = 8
	// maxInterface is the longest name of an interface (IFNAMSIZ of linux/if.h, less the final zero), maxID that of a capture.
	maxInterface = 15
	minID, maxID = 16, 64
)

// Direction says which packets are taken, as seen from the pod.
type Direction string

// The directions.
const (
	In   Direction = "in"
	Out  Direction = "out"
	Both Direction = "both"
)

// protocol is what a Filter can name: its numbers in IPv4 and IPv6 (IANA's protocol numbers), 0 where it does not exist.
type protocol struct{ four, six uint32 }

// arp is a protocol beside IP.
const arp = "arp"

func protocols() map[string]protocol {
	return map[string]protocol{"tcp": {6, 6}, "udp": {17, 17}, "sctp": {132, 132}, "icmp": {1, 58}, arp: {}}
}

// Filter says which packets are taken: those for which each list that is not empty has one that fits.
type Filter struct {
	// Prefixes: the source or the destination is in one of them.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	// Ports: the source's or the destination's is one of them, of TCP, UDP or SCTP. A fragment that has no ports does not fit.
	Ports []uint16 `json:"ports,omitempty"`
	// Protocols are of tcp, udp, sctp, icmp (of both families) and arp.
	Protocols []string `json:"protocols,omitempty"`
}

// Empty reports whether all packets fit.
func (f Filter) Empty() bool { return len(f.Prefixes)+len(f.Ports)+len(f.Protocols) == 0 }

// String is the filter in tcpdump's words.
func (f Filter) String() string {
	var all, terms []string
	add := func() {
		if len(terms) > 0 {
			all = append(all, "("+strings.Join(terms, " or ")+")")
		}
		terms = nil
	}
	for _, p := range f.Prefixes {
		if p.IsSingleIP() {
			terms = append(terms, "host "+p.Addr().String())
			continue
		}
		terms = append(terms, "net "+p.String())
	}
	add()
	for _, p := range f.Protocols {
		if p == "icmp" {
			p = "icmp or icmp6"
		}
		terms = append(terms, p)
	}
	add()
	for _, p := range f.Ports {
		terms = append(terms, "port "+strconv.Itoa(int(p)))
	}
	add()
	return strings.Join(all, " and ")
}

// Spec says what is captured.
type Spec struct {
	// Interface is its name in the pod.
	Interface string    `json:"interface"`
	Direction Direction `json:"direction"`
	Filter    Filter    `json:"filter"`
	// SnapLength is how much is kept of a packet, in bytes.
	SnapLength int `json:"snapLength"`
	// Count and Bytes are how many packets are taken at most, and how many bytes of them. 0: as many as the bounds allow.
	Count int   `json:"count,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
}

// SpecOf reads what a user asks for. Its error is that a prefix is none; all else is for Check to judge.
func SpecOf(asked api.PodCaptureSpec) (Spec, error) {
	s := Spec{
		Interface: asked.Interface, Direction: Direction(asked.Direction), SnapLength: asked.SnapLength, Count: asked.Count, Bytes: asked.Bytes,
		Filter: Filter{Ports: asked.Ports, Protocols: asked.Protocols},
	}
	for _, text := range asked.Prefixes {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return s, fmt.Errorf("host or net: %w", err)
		}
		s.Filter.Prefixes = append(s.Filter.Prefixes, prefix)
	}
	return s, nil
}

// Check says what is wrong with it.
func (s Spec) Check() error {
	known := protocols()
	for _, p := range s.Filter.Protocols {
		if _, there := known[p]; !there {
			return fmt.Errorf("protocol: %q is none of tcp, udp, sctp, icmp and arp", p)
		}
	}
	for _, p := range s.Filter.Prefixes {
		if !p.IsValid() || p.Addr().Zone() != "" || p.Addr().Is4In6() {
			return fmt.Errorf("host or net: %s is none", p)
		}
	}
	switch {
	case !slices.Contains([]Direction{In, Out, Both}, s.Direction):
		return fmt.Errorf("direction: %q is none of in, out and both", s.Direction)
	case s.Interface == "" || len(s.Interface) > maxInterface || strings.ContainsAny(s.Interface, "/ \t\n:") || !printable(s.Interface):
		return fmt.Errorf("interface: %q is no name of one", s.Interface)
	case s.SnapLength < MinSnapLength || s.SnapLength > MaxSnapLength:
		return fmt.Errorf("snaplen: %d is not between %d and %d", s.SnapLength, MinSnapLength, MaxSnapLength)
	case s.Count < 0 || s.Count > MaxCount:
		return fmt.Errorf("count: %d is not between 0 and %d", s.Count, MaxCount)
	case s.Bytes < 0 || s.Bytes > MaxBytes:
		return fmt.Errorf("bytes: %d is not between 0 and %d", s.Bytes, int64(MaxBytes))
	case max(len(s.Filter.Prefixes), len(s.Filter.Ports), len(s.Filter.Protocols)) > MaxTerms:
		return fmt.Errorf("filter: of each kind there may be %d", MaxTerms)
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Equal reports whether both ask for the same.
func (s Spec) Equal(o Spec) bool {
	return s.Interface == o.Interface && s.Direction == o.Direction && s.SnapLength == o.SnapLength && s.Count == o.Count &&
		s.Bytes == o.Bytes &&
		slices.Equal(s.Filter.Prefixes, o.Filter.Prefixes) && slices.Equal(s.Filter.Ports, o.Filter.Ports) &&
		slices.Equal(s.Filter.Protocols, o.Filter.Protocols)
}

// Part is which part of a capture is asked for. Between two parts the kernel keeps what arrives.
type Part struct {
	// ID is the capture's, chosen at random by who asks.
	ID string `json:"id"`
	// Number is 0 for the first, which begins the capture.
	Number int `json:"number"`
	// Time is how long it takes, in nanoseconds in JSON. Last: the capture ends with it.
	Time time.Duration `json:"time"`
	Last bool          `json:"last,omitempty"`
}

// Check says what is wrong with it.
func (p Part) Check() error {
	switch {
	case len(p.ID) < minID || len(p.ID) > maxID || !printable(p.ID):
		return fmt.Errorf("id: it has %d to %d characters", minID, maxID)
	case p.Number < 0:
		return errors.New("part: its number is negative")
	case p.Time <= 0 || p.Time > MaxPart:
		return fmt.Errorf("time: %s is not between 0s and %s", p.Time, MaxPart)
	}
	return nil
}
