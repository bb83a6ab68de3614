package central

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/atoll-net/atoll/pkg/process/child"
)

// inactivityProbe is how long a client may be silent before the server asks whether it is there.
const inactivityProbe = 60 * time.Second

// controlSocket is where a database's server is asked (ovs-appctl(8)), by the name that OVN's own scripts give it.
func controlSocket(run string, kind Kind) string {
	return filepath.Join(run, "ovn"+string(kind)+"_db.ctl")
}

// databaseSocket is where it serves the local root with all rights, by the name at which OVN's tools look.
func databaseSocket(run string, kind Kind) string {
	return filepath.Join(run, "ovn"+string(kind)+"_db.sock")
}

// remote is a place where ovsdb-server serves (ovsdb-server(1), --config-file).
type remote struct {
	InactivityProbe int64  `json:"inactivity-probe,omitempty"`
	Role            string `json:"role,omitempty"`
}

// serverConfig is what ovsdb-server reads. Whom a port serves, and as what, stands here and not in the database's table Connection,
// which all members would share, and which whoever may write the database could change.
//
// A southbound database that is held has no port for nodes: ovn-northd fills it by the socket.
func serverConfig(kind Kind, address netip.Addr, database, socket string, held bool) ([]byte, error) {
	clients := remote{InactivityProbe: inactivityProbe.Milliseconds()}
	if kind == Southbound {
		// Rights of a node: what ovn-northd writes into RBAC_Role, by the name in the client's certificate.
		clients.Role = "ovn-controller"
	}
	host := address.String()
	if address.Is6() {
		host = "[" + host + "]"
	}
	remotes := map[string]remote{"punix:" + socket: {}}
	if kind != Southbound || !held {
		remotes["pssl:"+strconv.Itoa(int(kind.ClientPort()))+":"+host] = clients
	}
	return json.MarshalIndent(map[string]any{
		"databases": map[string]any{database: map[string]string{"service-model": "clustered"}},
		"remotes":   remotes,
	}, "", "  ")
}

// configure writes what ovsdb-server reads, and returns where.
func (k *Keeper) configure() (string, error) {
	config, err := serverConfig(k.o.Kind, k.o.Address, k.files.database(), databaseSocket(k.o.Run, k.o.Kind), k.seen.Held)
	if err != nil {
		return "", fmt.Errorf("configure ovsdb-server: %w", err)
	}
	path := filepath.Join(k.o.Run, "ovn"+string(k.o.Kind)+"_db.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return "", fmt.Errorf("configure ovsdb-server: %w", err)
	}
	return path, nil
}

// reconfigure has the server that runs read it anew.
func (k *Keeper) reconfigure(ctx context.Context) error {
	if _, err := k.configure(); err != nil {
		return err
	}
	_, err := ask(ctx, controlSocket(k.o.Run, k.o.Kind), "ovsdb-server/reload")
	return err
}

// startServer starts ovsdb-server on the member's file.
func (k *Keeper) startServer() (*child.Child, error) {
	path, err := k.configure()
	if err != nil {
		return nil, err
	}
	current := filepath.Join(k.certificateDir(), "current")
	return startChild(k.o.Programs.Path("ovsdb-server"), []string{"OVS_RUNDIR=" + k.o.Run, "OVN_RUNDIR=" + k.o.Run},
		"--config-file="+path, "--unixctl="+controlSocket(k.o.Run, k.o.Kind), "--no-chdir", "-vconsole:info", "-vsyslog:off", "-vfile:off",
		"--private-key="+filepath.Join(current, keyFile), "--certificate="+filepath.Join(current, certificateFile),
		"--ca-cert="+filepath.Join(current, caFile),
		"--ssl-protocols=TLSv1.2+")
}
