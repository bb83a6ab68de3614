package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/pkg/vswitch"
)

// southbound is OVN's southbound database: where we are told that it is, or where the node's ovn-controller finds it.
type southbound struct {
	told string
	ovs  *vswitch.Client
	log  *slog.Logger
}

// read has somebody read the database.
func (s southbound) read(ctx context.Context, read func(*ovsdb.Reader) error) error {
	servers := s.told
	if servers == "" {
		var err error
		if servers, err = s.ovs.Southbound(ctx); err != nil {
			return err
		}
	}
	r, err := ovsdb.OpenReader(ctx, ovsdb.Config{Addresses: strings.Split(servers, ","), Log: s.log})
	if err != nil {
		return err
	}
	defer r.Close()
	return read(r)
}

// bridgeSocket is where ovs-vswitchd answers for a bridge: beside its database's socket.
func bridgeSocket(database, bridge string) string {
	path, _ := strings.CutPrefix(database, "unix:")
	return filepath.Join(filepath.Dir(path), bridge+".mgmt")
}
