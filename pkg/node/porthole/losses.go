package porthole

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// FollowLosses calls lost whenever something goes, in the network namespace of the calling thread, that may be ours, or may take
// along what is ours: an address, a route of ours, a link, a link that is up no more, a table of rules. What Atoll itself removes
// counts, too, and that it begins. It ends with ctx, or when the kernel's messages cannot be had any more.
func FollowLosses(ctx context.Context, lost func()) error {
	interfaces, err := nl.SubscribeAt(netns.None(), netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return fmt.Errorf("follow the kernel's interfaces: %w", err)
	}
	rules, err := nl.SubscribeAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		interfaces.Close()
		return fmt.Errorf("follow the kernel's rules: %w", err)
	}
	reading, end := context.WithCancel(ctx)
	defer end()
	for _, socket := range []*nl.NetlinkSocket{interfaces, rules} {
		context.AfterFunc(reading, socket.Close)
	}
	// What went before nobody tells.
	lost()
	ended := make(chan error, 2)
	for socket, gone := range map[*nl.NetlinkSocket]func(syscall.NetlinkMessage) bool{interfaces: interfaceGone, rules: tableGone} {
		go func() { ended <- follow(socket, gone, lost) }() // ends with its socket
	}
	err = <-ended
	end()
	err = errors.Join(err, <-ended)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow reads messages until the socket is closed.
func follow(socket *nl.NetlinkSocket, gone func(syscall.NetlinkMessage) bool, lost func()) error {
	for {
		messages, _, err := socket.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// There were more than the socket holds: any of them may have been one.
			lost()
			continue
		case err != nil:
			return fmt.Errorf("read from the kernel: %w", err)
		}
		if slices.ContainsFunc(messages, gone) {
			lost()
		}
	}
}

// interfaceGone is about messages of rtnetlink(7).
func interfaceGone(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_DELADDR, unix.RTM_DELLINK:
		return true
	case unix.RTM_DELROUTE:
		// A node that speaks BGP loses others all the time.
		return len(m.Data) >= unix.SizeofRtMsg && nl.DeserializeRtMsg(m.Data).Protocol == uint8(ourRoutes)
	case unix.RTM_NEWLINK:
		return len(m.Data) >= unix.SizeofIfInfomsg && nl.DeserializeIfInfomsg(m.Data).Flags&unix.IFF_UP == 0
	}
	return false
}

// tableGone is about messages of nfnetlink, whose type begins with the subsystem. (nf_tables_msg_types, linux/netfilter/nf_tables.h.)
func tableGone(m syscall.NetlinkMessage) bool {
	return m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE
}
