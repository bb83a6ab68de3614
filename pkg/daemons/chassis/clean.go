package chassis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

const (
	// kernelDatapath is the datapath that ovs-vswitchd makes in the kernel, and the interface by which it is seen.
	kernelDatapath = "ovs-system"
	// userspaceDatapath is the interface of the userspace datapath itself.
	userspaceDatapath = "ovs-netdev"
	// tunnelLinks begins the names of the interfaces that ovs-vswitchd makes for Geneve on the kernel's datapath.
	tunnelLinks = "genev_sys_"
)

// Cleaning is a node whose daemons have ended for good.
type Cleaning struct {
	Directories Directories
	// File is the local database. The underlay's addresses are in it.
	File string
	// Remove are further directories that go.
	Remove []string
}

// Run gives the underlay its addresses back, and removes the kernel's datapath, the run directories and the database. It can be
// repeated, and continues where it failed.
func (c Cleaning) Run(ctx context.Context, log *slog.Logger) error {
	if err := c.restoreUnderlay(ctx, log); err != nil {
		return err
	}
	if err := c.removeDatapath(ctx); err != nil {
		return err
	}
	for _, dir := range append([]string{c.Directories.Switch, c.Directories.OVN}, c.Remove...) {
		// A directory may be a mount: the node gave it a disk of its own. Then it stays, empty.
		if err := os.RemoveAll(dir); err != nil && !emptyMount(dir, err) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

// emptyMount reports whether all that is left of a directory is that something is mounted there.
func emptyMount(dir string, err error) bool {
	entries, readErr := os.ReadDir(dir)
	return errors.Is(err, unix.EBUSY) && readErr == nil && len(entries) == 0
}

// restoreUnderlay removes the bridges' own interfaces of the userspace datapath, which outlive ovs-vswitchd, and undoes what
// underlay.ensure did: the bridge's addresses go back to the interface that had them.
func (c Cleaning) restoreUnderlay(ctx context.Context, log *slog.Logger) error {
	before, err := c.readDatabase(ctx)
	if err != nil {
		return err
	}
	for _, name := range append([]string{userspaceDatapath, integrationBridge, physicalBridge}, before.bridges...) {
		link, err := netlink.LinkByName(name)
		var gone netlink.LinkNotFoundError
		if errors.As(err, &gone) || err == nil && link.Type() != "tuntap" {
			continue
		}
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	if len(before.addresses) == 0 {
		return nil
	}
	for _, name := range before.links {
		link, err := netlink.LinkByName(name)
		if err != nil || !physical(link) {
			continue
		}
		for _, p := range before.addresses {
			if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: netipx.PrefixIPNet(p)}); err != nil {
				return fmt.Errorf("give %s back to %s: %w", p, name, err)
			}
		}
		log.Info("the underlay has its addresses again", "link", name, "addresses", before.addresses)
		return nil
	}
	return fmt.Errorf("give %v back to the underlay: none of %v is an interface of the node", before.addresses, before.links)
}

// switched is what the local database tells of a node's switch.
type switched struct {
	// addresses are those that moved from the underlay to its bridge.
	addresses []netip.Prefix
	// links are interfaces that were there before the switch, bridges those that came with it.
	links, bridges []string
}

// readDatabase reads the database's file; without one it tells nothing.
func (c Cleaning) readDatabase(ctx context.Context) (switched, error) {
	if _, err := os.Stat(c.File); errors.Is(err, fs.ErrNotExist) {
		return switched{}, nil
	}
	printed, err := c.Directories.run(ctx, "ovsdb-tool", "query", c.File,
		`["Open_vSwitch",{"op":"select","table":"Bridge","where":[],"columns":["name","external_ids"]},`+
			`{"op":"select","table":"Interface","where":[],"columns":["name","type"]}]`)
	if err != nil {
		return switched{}, err
	}
	return readSwitched(printed)
}

// physical reports whether a link may have been the underlay: pods' and the bridges' own are not.
func physical(link netlink.Link) bool {
	attrs := link.Attrs()
	return !strings.HasPrefix(attrs.Name, "atoll-") && attrs.Name != physicalBridge && attrs.Name != integrationBridge
}

// readSwitched reads what ovsdb-tool prints: rows of Bridge, and rows of Interface.
func readSwitched(printed string) (out switched, err error) {
	var results []struct {
		Rows []struct {
			Name, Type string
			IDs        []json.RawMessage `json:"external_ids"`
		}
	}
	if err := json.Unmarshal([]byte(printed), &results); err != nil {
		return out, fmt.Errorf("read the answer of ovsdb-tool %q: %w", printed, err)
	}
	if len(results) != 2 {
		return out, fmt.Errorf("read the answer of ovsdb-tool %q: it has %d results, want 2", printed, len(results))
	}
	for _, row := range results[0].Rows {
		out.bridges = append(out.bridges, row.Name)
		// A map of OVSDB is ["map", [[key, value], ...]] (RFC 7047, 5.1).
		if row.Name != physicalBridge || len(row.IDs) != 2 {
			continue
		}
		var pairs [][2]string
		if err := json.Unmarshal(row.IDs[1], &pairs); err != nil {
			return out, fmt.Errorf("read external_ids of %s: %w", physicalBridge, err)
		}
		for _, pair := range pairs {
			if pair[0] == keyAddresses {
				if out.addresses, err = storedAddresses(pair[1]); err != nil {
					return out, err
				}
			}
		}
	}
	for _, row := range results[1].Rows {
		if row.Type == "" || row.Type == "system" {
			out.links = append(out.links, row.Name)
		}
	}
	return out, nil
}

// removeDatapath removes what ovs-vswitchd leaves in the kernel when it ends without --cleanup.
func (c Cleaning) removeDatapath(ctx context.Context) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		if link.Attrs().Name == kernelDatapath {
			if _, err := c.Directories.run(ctx, "ovs-dpctl", "del-dp", kernelDatapath); err != nil {
				return err
			}
		}
	}
	for _, link := range links {
		if name := link.Attrs().Name; strings.HasPrefix(name, tunnelLinks) && link.Type() == "geneve" {
			var gone netlink.LinkNotFoundError
			if err := netlink.LinkDel(link); err != nil && !errors.As(err, &gone) {
				return fmt.Errorf("delete %s: %w", name, err)
			}
		}
	}
	return nil
}
