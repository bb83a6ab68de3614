package porthole

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// generation is the number of the ruleset in the namespace of the calling thread. It changes with every transaction of
// nftables there: while it is the same, no rule, set or element has been touched by anyone. (linux/netfilter/nf_tables.h,
// NFT_MSG_GETGEN.)
func generation() (uint32, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	answers, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("read nftables generation: %w", err)
	}
	for _, answer := range answers {
		attributes, err := nl.ParseRouteAttr(answer[nl.SizeofNfgenmsg:])
		if err != nil {
			return 0, fmt.Errorf("read nftables generation: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.NFTA_GEN_ID && len(a.Value) == 4 {
				return binary.BigEndian.Uint32(a.Value), nil
			}
		}
	}
	return 0, errors.New("read nftables generation: the kernel does not say")
}
