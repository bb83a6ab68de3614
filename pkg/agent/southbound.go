package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// lookForServers is how often the agent looks whether the southbound database is reached over TLS, until it is.
const lookForServers = 2 * time.Second

// southbound reads OVN's southbound database: at the servers that the agent was told, or else at those of the node's ovn-controller.
// Servers whose addresses begin with ssl: get the agent's own certificate, with which nobody writes rows of a chassis. Others need none.
type southbound struct {
	told string
	ovs  *vswitch.Client
	// dir holds the certificate. keeper keeps it once a server needs it; nil until then.
	dir    string
	keeper atomic.Pointer[certs.Keeper]
	log    *slog.Logger
}

// notAskedError says why the database was not asked: nothing is known about the database itself.
type notAskedError struct{ why error }

func (e *notAskedError) Error() string {
	return fmt.Sprintf("OVN's southbound database was not asked: %v", e.why)
}

func (e *notAskedError) Unwrap() error { return e.why }

// refusedError says that a server of the database answered, and that it or the agent refused the other's certificate.
type refusedError struct{ why error }

func (e *refusedError) Error() string {
	return fmt.Sprintf("OVN's southbound database answered, and the connection was refused: %v", e.why)
}

func (e *refusedError) Unwrap() error { return e.why }

// servers returns the addresses of the database's servers.
func (s *southbound) servers(ctx context.Context) ([]string, error) {
	servers := s.told
	if servers == "" {
		var err error
		if servers, err = s.ovs.Southbound(ctx); err != nil {
			return nil, err
		}
	}
	return strings.Split(servers, ","), nil
}

// overTLS reports whether an address needs a certificate.
func overTLS(address string) bool { return strings.HasPrefix(address, "ssl:") }

// read connects to the database, calls read, and closes the connection. Its error is a *notAskedError when no server was dialled.
func (s *southbound) read(ctx context.Context, read func(*ovsdb.Reader) error) error {
	servers, err := s.servers(ctx)
	if err != nil {
		return &notAskedError{err}
	}
	config := ovsdb.Config{Addresses: servers, Log: s.log}
	var met atomic.Bool
	if slices.ContainsFunc(servers, overTLS) {
		if err := s.certified(); err != nil {
			return &notAskedError{err}
		}
		config.TLS = certs.Reader(s.dir)
		verify := config.TLS.VerifyConnection
		config.TLS.VerifyConnection = func(state tls.ConnectionState) error {
			met.Store(true)
			return verify(state)
		}
	}
	r, err := ovsdb.OpenReader(ctx, config)
	if err != nil {
		if met.Load() {
			return &refusedError{err}
		}
		return err
	}
	defer r.Close()
	return read(r)
}

// certified is an error while the agent has no certificate for the database: it says what the certificate waits for.
func (s *southbound) certified() error {
	keeper := s.keeper.Load()
	if keeper == nil {
		return errors.New("the agent has only just begun to ask for its certificate")
	}
	select {
	case <-keeper.Ready():
		return nil
	default:
		return keeper.Healthy()
	}
}

// readerDir is where the certificate is by which the agent reads the southbound database.
func readerDir(config Config) string { return filepath.Join(config.RunDir, "southbound-certificates") }

// keep keeps the certificate until ctx ends. It asks for none before a server of the database needs it.
func (s *southbound) keep(ctx context.Context, node string, client kubernetes.Interface) error {
	tick := time.NewTicker(lookForServers)
	defer tick.Stop()
	for {
		if servers, err := s.servers(ctx); err == nil && slices.ContainsFunc(servers, overTLS) {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	keeper := certs.NewKeeper(certs.KeeperConfig{Client: client, Log: s.log, Signer: certs.SignerReader, Node: node, Dir: s.dir})
	s.keeper.Store(keeper)
	return keeper.Run(ctx)
}

// bridgeSocket is where ovs-vswitchd answers for a bridge: beside its database's socket.
func bridgeSocket(database, bridge string) string {
	path, _ := strings.CutPrefix(database, "unix:")
	return filepath.Join(filepath.Dir(path), bridge+".mgmt")
}
