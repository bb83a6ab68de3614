package chassis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

const (
	controllerDaemon = "ovn-controller"
	// keepFlowsKey is how long ovn-controller leaves flows in place when it starts, in milliseconds.
	keepFlowsKey = "ovn-ofctrl-wait-before-clear"
)

const (
	// remindEvery is how often it is said for what a start waits.
	remindEvery = 10 * time.Second
	// keepFlowsFor is how long a new ovn-controller leaves the flows of the last one in place, so that it knows all of its own before it
	// replaces them. (ovn-controller(8), ovn-ofctrl-wait-before-clear.) Ports of pods that start meanwhile wait for it.
	keepFlowsFor = 4 * time.Second
	// keepFlowsMoving is the same for one that moves to a database that was made anew: it needs the other nodes' ports too, and
	// these come to the database while their ovn-controllers start.
	keepFlowsMoving = 10 * time.Second
)

// Controller is the node's ovn-controller.
type Controller struct {
	Directories Directories
	// Node is the node's name in Kubernetes. The chassis has the same, and so has its certificate.
	Node string
	// Tunnel is the node's address for tunnels (Geneve, RFC 8926).
	Tunnel netip.Addr
	// Datapath is that of the bridge that ovn-controller makes.
	Datapath Datapath
	// Certificates is a directory with tls.crt, tls.key and ca.crt. It may be empty only with PlaintextForTests.
	Certificates string
	Plaintext    Plaintext
	// Kube reads the ConfigMap RecordName of Namespace.
	Kube      kubernetes.Interface
	Namespace string
}

// errPlain says that a flag is missing.
var errPlain = errors.New("read --certificates: it is empty, and there is no connection to the southbound database without certificates")

// Run keeps the node a chassis until ctx ends.
func (c Controller) Run(ctx context.Context, log *slog.Logger) (err error) {
	defer func(outer context.Context) { err = unlessTold(outer, err) }(ctx)
	if err := c.prepare(ctx, log); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	servers := make(chan place)
	go c.followRecord(ctx, servers, log) // ends with ctx
	local, err := vswitch.Dial(ctx, "unix:"+c.Directories.database(), integrationBridge, log)
	if err != nil {
		return err
	}
	defer local.Close()

	now, err := c.firstPlace(ctx, servers, log)
	if err != nil || now.remote == "" {
		return err
	}
	if err := c.apply(ctx, now); err != nil {
		return err
	}
	running := c.begin(ctx, log)
	for {
		select {
		case err := <-running.ended:
			return err
		case next := <-servers:
			if next.remote != now.remote {
				log.Info("the southbound database is elsewhere", "servers", next.remote, "before", now.remote)
			}
			before := now
			now = next
			switch next.change(before) {
			case waits:
				log.Info("the southbound database is made anew; flows stay as they are until it is complete",
					"cluster", next.cluster, "before", before.cluster)
				now.cluster = before.cluster
			case moved:
				log.Info("the southbound database was made anew; ovn-controller moves to it", "cluster", next.cluster, "before", before.cluster)
				now.moved = true
				if running, err = c.restart(ctx, running, now, log); err != nil {
					return err
				}
				continue
			}
		// A database that was made anew has none of the settings.
		case <-local.Changed():
		case <-local.Rewired():
		case <-ctx.Done():
			return <-running.ended
		}
		if err := c.apply(ctx, now); err != nil && ctx.Err() == nil {
			log.Error("settings are not written; they are when the database answers again", "error", err)
		}
	}
}

// prepare makes the directories, and waits for the local database and for certificates.
func (c Controller) prepare(ctx context.Context, log *slog.Logger) error {
	if c.Certificates == "" && c.Plaintext != PlaintextForTests {
		return errPlain
	}
	if err := c.Directories.make(); err != nil {
		return err
	}
	if err := waitForDatabase(ctx, c.Directories, log); err != nil {
		return err
	}
	// Whoever keeps the certificates starts here, beside: certs.Keep(ctx, ...). ovn-controller itself reads files anew that have changed.
	return c.waitForCertificates(ctx, log)
}

// restart ends ovn-controller, and starts it at another southbound database.
func (c Controller) restart(ctx context.Context, before running, now place, log *slog.Logger) (running, error) {
	before.stop()
	if err := <-before.ended; err != nil {
		log.Warn("ovn-controller did not end as it was asked to", "error", err)
	}
	c.move(ctx, now, log)
	if err := c.apply(ctx, now); err != nil {
		return running{}, err
	}
	return c.begin(ctx, log), nil
}

// firstPlace is where the southbound database is when ovn-controller begins; nowhere when ctx ends before that is known. What the
// local database has from before is as good as what the record had then: a node starts without the API, too.
func (c Controller) firstPlace(ctx context.Context, servers <-chan place, log *slog.Logger) (now place, err error) {
	if now.remote, err = c.remote(ctx); err != nil {
		return now, err
	}
	if now.cluster, err = c.external(ctx, clusterKey); err != nil {
		return now, err
	}
	remind := time.NewTicker(remindEvery)
	defer remind.Stop()
	for now.remote == "" {
		log.Info("waiting for the addresses of the southbound database", "configmap", c.Namespace+"/"+RecordName, "key", recordKey)
		select {
		case now = <-servers:
		case <-remind.C:
		case <-ctx.Done():
			return place{}, nil
		}
	}
	return now, nil
}

// running is an ovn-controller that is kept: ended has one value when it is not any more.
type running struct {
	stop  context.CancelFunc
	ended chan error
}

func (c Controller) begin(ctx context.Context, log *slog.Logger) running {
	ctx, stop := context.WithCancel(ctx)
	r := running{stop, make(chan error, 1)}
	go func() { r.ended <- c.daemon(log).keep(ctx) }() // ends with ctx
	return r
}

func (c Controller) daemon(log *slog.Logger) daemon {
	arguments := []string{"unix:" + c.Directories.database()}
	if c.Certificates != "" {
		for _, f := range c.files() {
			arguments = append(arguments, "--"+f.option+"="+f.path)
		}
	}
	return daemon{
		name: controllerDaemon, dirs: c.Directories, log: log, arguments: arguments,
		// Its chassis and port bindings stay in the southbound database, and its flows in the bridge. (ovn-controller(8).)
		exit: []string{"exit", "--restart"},
	}
}

// settings are the external_ids by which ovn-controller goes. (ovn-controller(8), CONFIGURATION.)
func (c Controller) settings(remote string) map[string]string {
	return map[string]string{
		"system-id":                c.Node,
		"hostname":                 c.Node,
		"ovn-remote":               remote,
		"ovn-encap-type":           "geneve",
		"ovn-encap-ip":             c.Tunnel.String(),
		"ovn-bridge-datapath-type": string(c.Datapath),
		keepFlowsKey:               strconv.FormatInt(keepFlowsFor.Milliseconds(), 10),
		// A node hears of the Networks whose pods it hosts, and of no others.
		"ovn-monitor-all": "false",
	}
}

// apply writes the settings. What is right already is no change.
func (c Controller) apply(ctx context.Context, now place) error {
	words := []string{"set", databaseName, "."}
	settings := c.settings(now.remote)
	if now.moved {
		settings[keepFlowsKey] = strconv.FormatInt(keepFlowsMoving.Milliseconds(), 10)
	}
	if now.cluster != "" {
		settings[clusterKey] = now.cluster
	}
	for key, value := range settings {
		words = append(words, fmt.Sprintf("external_ids:%s=%q", key, value))
	}
	_, err := c.Directories.vsctl(ctx, words...)
	return err
}

// remote is what the database has as the southbound database's servers; empty when nothing, or what may not be.
func (c Controller) remote(ctx context.Context) (string, error) {
	remote, err := c.external(ctx, "ovn-remote")
	if err != nil {
		return "", err
	}
	for one := range strings.SplitSeq(remote, ",") {
		if !strings.HasPrefix(one, "ssl:") && c.Plaintext != PlaintextForTests {
			return "", nil
		}
	}
	return remote, nil
}

// external is a value of the database's external_ids; empty when there is none.
func (c Controller) external(ctx context.Context, key string) (string, error) {
	printed, err := c.Directories.vsctl(ctx, "--if-exists", "get", databaseName, ".", "external_ids:"+key)
	return strings.Trim(printed, `"`), err
}

type certificateFile struct{ path, option string }

func (c Controller) files() []certificateFile {
	in := func(name string) string { return filepath.Join(c.Certificates, name) }
	return []certificateFile{{in("tls.key"), "private-key"}, {in("tls.crt"), "certificate"}, {in("ca.crt"), "ca-cert"}}
}

// waitForCertificates waits until the files are there, and says which are not.
func (c Controller) waitForCertificates(ctx context.Context, log *slog.Logger) error {
	if c.Certificates == "" {
		return nil
	}
	var said time.Time
	err := await(ctx, func() error {
		var absent []error
		for _, f := range c.files() {
			if info, err := os.Stat(f.path); err != nil {
				absent = append(absent, err)
			} else if info.Size() == 0 {
				absent = append(absent, fmt.Errorf("%s is empty", f.path))
			}
		}
		err := errors.Join(absent...)
		if err != nil && time.Since(said) >= remindEvery {
			said = time.Now()
			log.Info("waiting for the node's certificate", "directory", c.Certificates, "error", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the node's certificate: %w", err)
	}
	return nil
}

// followRecord tells of the southbound database's servers, each time that they are written, until ctx ends.
func (c Controller) followRecord(ctx context.Context, servers chan<- place, log *slog.Logger) {
	const what = "ConfigMap " + RecordName
	read := func(m *corev1.ConfigMap) *place {
		now, err := southbound(m.Data, c.Plaintext)
		if err != nil {
			log.Error("the southbound database's addresses cannot be read; the last ones count", "error", err)
			return nil
		}
		return &now
	}
	follow.Kind[*corev1.ConfigMap, string, place]{
		Name: what,
		Lister: follow.List(c.Kube, c.Kube.CoreV1().ConfigMaps(c.Namespace), follow.Options{
			Fields: "metadata.name=" + RecordName,
			Failed: func(err error) { log.Warn("cannot watch; it is tried again", "what", what, "error", err) },
		}),
		Key: follow.ByName, Read: read,
		Sink: &follow.Each[string, place]{
			Seen: func(now *place) {
				select {
				case servers <- *now:
				case <-ctx.Done():
				}
			},
			Gone: func(string) {
				log.Error("the ConfigMap was removed; the last addresses of the southbound database count", "configmap", c.Namespace+"/"+RecordName)
			},
			Synced: func() {},
		},
	}.Source().Run(ctx)
}
