package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// harden sets what must hold before the pod's end is up. It runs inside the pod's network namespace.
func harden(spec Spec) error {
	settings := []Setting{
		// A neighbour in the Network must not become this pod's router.
		{"ipv6", "accept_ra", "0"},
		// The link-local address too is the pod's alone: OVN sees to it.
		{"ipv6", "accept_dad", "0"},
	}
	if spec.hasIPv6() {
		settings = append(settings, Setting{"ipv6", "disable_ipv6", "0"})
	}
	return Set(spec.Owner.Interface, settings...)
}

// Setting is a value below /proc/sys/net. (ip-sysctl in the kernel's documentation.)
type Setting struct {
	// Protocol is ipv4 or ipv6.
	Protocol   string
	Key, Value string
}

// Names that stand, as that of an interface, for others.
const (
	// AllInterfaces are those that there are. What is set for it, each one gets at that moment; what is read from it is only
	// what was set so last.
	AllInterfaces = "all"
	// NewInterfaces are those to come.
	NewInterfaces = "default"
)

// spinning is held by whoever writes a setting for which the kernel locks all links of all namespaces. It does not wait for
// that lock: where it is taken, the write begins anew until it is not, and takes a whole processor meanwhile, perhaps the
// one that the lock's holder needs. So this process does it once at a time. (restart_syscall in Linux's
// devinet_sysctl_forward, addrconf_sysctl_forward, addrconf_sysctl_disable and addrconf_sysctl_addr_gen_mode.)
var spinning sync.Mutex

// spins reports whether a write may take the processor until nobody has the lock of all links.
func (s Setting) spins() bool {
	return slices.Contains([]string{"ip_forward", "forwarding", "disable_ipv6", "addr_gen_mode"}, s.Key)
}

// Set sets settings of an interface, or of the namespace as a whole when iface is empty, in the namespace of the calling
// thread. A kernel without IPv6 has none of those, and needs none. What is as it should be is not written.
func Set(iface string, settings ...Setting) error {
	for _, s := range settings {
		if _, differs := s.differs(iface); !differs {
			continue
		}
		if err := s.write(s.file(iface)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s of %s: %w", s.Key, iface, err)
		}
	}
	return nil
}

// Unset are those of some settings of an interface that are not as they should be, with the values that they have, where Set
// would write. What the kernel does not have is none of them.
func Unset(iface string, settings ...Setting) (out []Setting) {
	for _, s := range settings {
		if have, differs := s.differs(iface); differs && have != "" {
			out = append(out, Setting{s.Protocol, s.Key, have})
		}
	}
	return out
}

// differs says whether a setting has another value, and which; none where it cannot be read.
func (s Setting) differs(iface string) (have string, differs bool) {
	present, err := os.ReadFile(s.file(iface))
	have = strings.TrimSpace(string(present))
	return have, err != nil || have != s.Value
}

// file is where a setting of an interface is, or that of the namespace when iface is empty.
func (s Setting) file(iface string) string {
	if iface == "" {
		return filepath.Join("/proc/sys/net", s.Protocol, s.Key)
	}
	return filepath.Join("/proc/sys/net", s.Protocol, "conf", iface, s.Key)
}

func (s Setting) write(file string) error {
	if s.spins() {
		spinning.Lock()
		defer spinning.Unlock()
	}
	return os.WriteFile(file, []byte(s.Value), 0o644)
}

// NoLinkLocal keeps Linux from giving an interface of the calling thread's namespace an IPv6 address for the link. It
// is for one that is not up yet.
func NoLinkLocal(link netlink.Link) error {
	// By netlink, which waits for the lock of all links.
	const none = 1
	name := link.Attrs().Name
	present, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "addr_gen_mode"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(present)) == strconv.Itoa(none) {
		return nil
	}
	if err := netlink.LinkSetIP6AddrGenMode(link, none); err != nil {
		return fmt.Errorf("set addr_gen_mode of %s: %w", name, err)
	}
	return nil
}

// LinkOf is an interface of the calling thread's namespace, of which name and index are known, and nothing else. Unlike
// netlink, the kernel answers this question without the lock of all links. (netdevice(7), SIOCGIFINDEX.)
func LinkOf(name string) (netlink.Link, error) {
	ask, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ask); err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name, Index: int(ask.Uint32())}}, nil
}

// RaiseAs brings an interface of the calling thread's namespace up and gives it an alias, both at once.
func RaiseAs(link netlink.Link, alias string) error {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index, message.Flags, message.Change = int32(link.Attrs().Index), unix.IFF_UP, unix.IFF_UP
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias)))
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("bring up %s with its alias: %w", link.Attrs().Name, err)
	}
	return nil
}

// txChecksums are the features of a veth that leave a checksum to whoever sends the packet out. Every kernel with
// nf_tables has both.
func txChecksums() []string { return []string{"tx-checksum-ip-generic", "tx-checksum-sctp"} }

// DisableTxChecksums has an interface in the namespace of the calling thread fill in its checksums. What
// builds on it (segmentation offload) goes off with it.
func DisableTxChecksums(iface string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool: %w", err)
	}
	defer tool.Close()
	off := map[string]bool{}
	for _, feature := range txChecksums() {
		off[feature] = false
	}
	if err := tool.Change(iface, off); err != nil {
		return fmt.Errorf("turn off checksum offload of %s: %w", iface, err)
	}
	return nil
}
